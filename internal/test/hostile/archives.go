package hostile

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"strings"
)

// A Tree is the names of an archive's entries. Most of what they would make are
// directories that have no entry of their own.
type Tree struct {
	Name  string // of the corpus's entry
	Names []string
}

// Trees returns sets of up to n names each, all of them good by themselves, that
// lie up to 100 directories deep. With n from 10,000 on, all of them go beyond
// the default limits of file.unzip and file.untar.
func Trees(n int) []Tree {
	const levels = 100
	chain := strings.TrimSuffix(strings.Repeat("d/", levels-1), "/")
	trees := []Tree{{Name: "own chain"}, {Name: "branch at every level"}, {Name: "long names"}, {Name: "one chain"}}
	for i := range n {
		at := i % (levels - 1) * 2
		fork := fmt.Sprintf("%sb%d/", chain[:at], i) + chain[:len(chain)-at]
		long := fmt.Sprintf("%038d/", i)
		trees[0].Names = append(trees[0].Names, fmt.Sprintf("%d/%s/f", i, chain))
		trees[1].Names = append(trees[1].Names, strings.TrimSuffix(fork, "/")+"/f")
		if i%20 == 0 { // each has 4 kB
			trees[2].Names = append(trees[2].Names, strings.Repeat(long, levels)+"f")
		}
		trees[3].Names = append(trees[3].Names, fmt.Sprintf("%s/d/%d", chain, i))
	}
	return trees
}

// Flat returns n short names in one directory.
func Flat(n int) Tree {
	t := Tree{Name: "flat"}
	for i := range n {
		t.Names = append(t.Names, fmt.Sprint(i))
	}
	return t
}

// Zip returns an archive with an empty file of each name.
func (t Tree) Zip() []byte {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, name := range t.Names {
		// A stored empty file with its sizes in its header is what most programs write.
		if _, err := z.CreateRaw(&zip.FileHeader{Name: name}); err != nil {
			panic(err)
		}
	}
	if err := z.Close(); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// Tar returns an archive with an empty file of each name, packed by gzip.
func (t Tree) Tar() []byte {
	var b bytes.Buffer
	g := gzip.NewWriter(&b)
	w := tar.NewWriter(g)
	for _, name := range t.Names {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Format: tar.FormatGNU}); err != nil {
			panic(err)
		}
	}
	for _, c := range []io.Closer{w, g} {
		if err := c.Close(); err != nil {
			panic(err)
		}
	}
	return b.Bytes()
}
