package sftpserver

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// A recording is a channel on which a client has said everything already.
type recording struct {
	io.Reader
	answers bytes.Buffer
}

func (r *recording) Write(p []byte) (int, error) { return r.answers.Write(p) }

// FuzzSession sends arbitrary packets. No session may panic, hang or reach
// outside the root, and answers consist of whole packets.
func FuzzSession(f *testing.F) {
	id := []byte{0, 0, 0, 9}
	text := func(s ...string) []byte {
		var b []byte
		for _, s := range s {
			b = appendString(b, s)
		}
		return b
	}
	number := func(v uint32) []byte { return appendUint32(nil, v) }
	long := []byte{0, 0, 0, 0, 0, 0, 0, 1}
	begin := newPacket(fxpInit, number(3))
	create := newPacket(fxpOpen, id, text("../canary"), number(0x1b), number(0))
	for _, packets := range [][][]byte{
		{begin, create, newPacket(fxpWrite, id, text("1"), long, text("data")), newPacket(fxpRead, id, text("1"), long, number(100)), newPacket(fxpClose, id, text("1"))},
		{begin, newPacket(fxpOpendir, id, text("/")), newPacket(fxpReaddir, id, text("1")), newPacket(fxpReaddir, id, text("1")), newPacket(fxpRead, id, text("1"), long, number(1))},
		{begin, create, newPacket(fxpFsetstat, id, text("1"), number(attrSize|attrPermissions|attrTimes), long, number(0o600), number(1), number(1)), newPacket(fxpFstat, id, text("1"))},
		{begin, create, newPacket(fxpFsetstat, id, text("1"), number(1<<31), number(1), text("", "")), newPacket(fxpSetstat, id, text("canary"), number(attrSize), number(7))},
		{newPacket(fxpExtended, id, text(extLimits)), create, newPacket(fxpExtended, id, text(extFsync, "1")), newPacket(fxpExtended, id, text(extPosixRename, "canary", "../../x"))},
		{newPacket(fxpExtended, id, text("statvfs@openssh.com", "/")), newPacket(fxpExtended, id, text("hardlink@openssh.com", "../canary", "x")), newPacket(fxpExtended, id)},
		{newPacket(fxpSymlink, id, text("../canary", "link")), newPacket(fxpReadlink, id, text("link")), newPacket(fxpOpen, id, text("link"), number(3), number(0))},
		{newPacket(fxpMkdir, id, text("a"), number(0)), newPacket(fxpRename, id, text("a", "b")), newPacket(fxpRmdir, id, text("b")), newPacket(fxpRemove, id, text("b"))},
		{newPacket(fxpRealpath, id, text("..")), newPacket(fxpStat, id, text("../canary")), newPacket(fxpLstat, id, text("\x00"))},
		{newPacket(0), newPacket(99, id), {0, 0, 0, 0}}, {{0xff, 0xff, 0xff, 0xff, 1}}, {{0, 0, 0}},
	} {
		f.Add(bytes.Join(packets, nil))
	}

	f.Fuzz(func(t *testing.T, said []byte) {
		dir := t.TempDir()
		canary := filepath.Join(dir, "canary")
		if err := os.WriteFile(canary, []byte("alive"), 0o600); err != nil {
			t.Fatal(err)
		}
		opt := &Options{Users: map[string]string{"ada": "secret"}}
		s, err := New(filepath.Join(dir, "root"), opt)
		if err != nil {
			t.Fatal(err)
		}
		h, err := NewHostile(Script{Entries: []Entry{{Name: ".."}}, Content: []byte("content")}, opt)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []*Server{s, h} {
			channel := &recording{Reader: bytes.NewReader(said)}
			(&conn{server: s, ctx: s.ctx}).serve(channel)
			for rest := &channel.answers; rest.Len() > 0; {
				if _, err := readPacket(rest, nil); err != nil {
					t.Fatalf("answers end in %v", err)
				}
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
		b, err := os.ReadFile(canary)
		if files, _ := os.ReadDir(dir); string(b) != "alive" || err != nil || len(files) != 2 {
			t.Errorf("canary = %q, %v, beside %d files, want it alive beside the root", b, err, len(files)-1)
		}
	})
}

// TestOpLog forgets the oldest operations, and counts them still.
func TestOpLog(t *testing.T) {
	s := &Server{}
	for i := range int64(maxOps * 5 / 2) {
		s.log.add(Op{Method: "read", Offset: i})
	}
	ops := s.Ops()
	if len(ops) != maxOps || s.Count("read", "write") != maxOps*5/2 {
		t.Errorf("%d of %d operations are kept, want %d", len(ops), s.Count("read"), maxOps)
	}
	for i, o := range ops {
		if want := int64(maxOps*3/2 + i); o.Offset != want {
			t.Fatalf("operation %d kept has offset %d, want %d", i, o.Offset, want)
		}
	}
}
