package file_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/steps/file"
)

// A unit test can execute a step by itself.
func ExampleZip() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	for _, name := range []string{"june.csv", "may.csv", "notes.txt"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
			fmt.Println(err)
			return
		}
	}
	job := courier.NewContext(courier.ContextConfig{Workspace: dir})
	defer job.Close()

	packed, err := file.Zip{}.Execute(context.Background(), job, file.ZipConfig{SourcePath: "*.csv", OutputPath: "out.zip"})
	fmt.Println(packed.ArchivePath, packed.EntryCount, err)
	unpacked, err := file.Unzip{}.Execute(context.Background(), job, file.UnzipConfig{ArchivePath: packed.ArchivePath, OutputDirectory: "out"})
	fmt.Println(unpacked.ExtractedFiles, err)
	// Output:
	// out.zip 2 <nil>
	// [out/june.csv out/may.csv] <nil>
}

func ExampleRegister() {
	var registry courier.Registry
	file.Register(&registry, &file.Options{Limits: file.Limits{MaxBytes: 1 << 30}})
	fmt.Println(registry.Keys())
	// Output:
	// [file.copy file.delete file.gunzip file.gzip file.hash file.join file.list file.mkdir file.move file.rename file.split file.tar file.untar file.unzip file.unzstd file.verify file.wait file.zip file.zstd]
}
