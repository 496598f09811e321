package depot_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/courierhq/courier/depot"
)

// large is the size of the file that the benchmarks write.
const large = 1 << 30

// source makes a file of content that does not compress well.
func source(b *testing.B) string {
	b.Helper()
	name := filepath.Join(b.TempDir(), "source")
	f, err := os.Create(name)
	must(b, err)
	defer f.Close()
	block := make([]byte, 1<<20)
	x := uint64(88172645463325252)
	for range large / len(block) {
		for i := range block {
			x ^= x << 13
			x ^= x >> 7
			x ^= x << 17
			block[i] = byte(x)
		}
		_, err := f.Write(block)
		must(b, err)
	}
	must(b, f.Sync())
	return name
}

// BenchmarkWrite writes 1 GiB into a depot, hashed and synced, in blocks of 256 KiB.
func BenchmarkWrite(b *testing.B) {
	name, d := source(b), openDir(b, 0)
	b.SetBytes(large)
	b.ReportAllocs()
	for b.Loop() {
		f, err := os.Open(name)
		must(b, err)
		p, err := d.Create(b.Context(), depot.InputKey(running, "a"))
		must(b, err)
		_, err = io.CopyBuffer(struct{ io.Writer }{p}, struct{ io.Reader }{f}, make([]byte, 256<<10))
		must(b, err)
		_, err = p.Commit()
		must(b, err)
		must(b, f.Close())
	}
}

// BenchmarkCopyAndSum is what BenchmarkWrite is compared with: cp, then sha256sum, without
// a sync.
func BenchmarkCopyAndSum(b *testing.B) {
	name := source(b)
	to := name + ".copy"
	b.SetBytes(large)
	for b.Loop() {
		must(b, exec.Command("cp", name, to).Run())
		must(b, exec.Command("sha256sum", to).Run())
		must(b, os.Remove(to))
	}
}

// BenchmarkSmall writes files of 4 KiB.
func BenchmarkSmall(b *testing.B) {
	d, content := openDir(b, 0), make([]byte, 4<<10)
	n := 0
	for b.Loop() {
		p, err := d.Create(b.Context(), depot.ResultKey(running, fmt.Sprint(n)))
		must(b, err)
		n++
		_, err = p.Write(content)
		must(b, err)
		_, err = p.Commit()
		must(b, err)
	}
}

// BenchmarkList lists 10,000 files.
func BenchmarkList(b *testing.B) {
	d := openDir(b, 0)
	for i := range 10_000 {
		p, err := d.Create(b.Context(), depot.ResultKey(running, fmt.Sprint(i)))
		must(b, err)
		_, err = p.Commit()
		must(b, err)
	}
	for b.Loop() {
		_, err := d.List(b.Context(), running)
		must(b, err)
	}
}
