package sftpclient

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestGuardRefuses has a server break the protocol in answer to each request. The connection
// ends with an error that says what the server did.
func TestGuardRefuses(t *testing.T) {
	ok := func(id uint32) []byte { return newPacket(fxpStatus).uint32(statusOK).sealed(id) }
	for name, c := range map[string]struct {
		to   byte // the request that gets the answer
		send func(id uint32) []byte
		want string
	}{
		"success for a path":           {fxpRealpath, ok, "reports success without the answer"},
		"success for attributes":       {fxpLstat, ok, "reports success without the answer"},
		"success for a handle":         {fxpOpen, ok, "reports success without the answer"},
		"success for a directory":      {fxpOpendir, ok, "reports success without the answer"},
		"success for entries":          {fxpReaddir, ok, "reports success without the answer"},
		"success for data":             {fxpRead, ok, "reports success without the answer"},
		"data without":                 {fxpRead, func(id uint32) []byte { return newPacket(fxpData).string("").sealed(id) }, "sends 0 bytes of data where 1"},
		"more data":                    {fxpRead, func(id uint32) []byte { return newPacket(fxpData).string("12345678901").sealed(id) }, "sends 11 bytes of data where 1"},
		"data that is cut":             {fxpRead, func(id uint32) []byte { return newPacket(fxpData).uint32(9).sealed(id) }, "sends 9 bytes of data where 1"},
		"data without its length":      {fxpRead, func(id uint32) []byte { return append(newPacket(fxpData).sealed(id), ok(id+1)...) }, "an answer is too short"},
		"another id":                   {fxpRemove, func(id uint32) []byte { return ok(id + 7) }, "answers a request that was not made"},
		"two answers":                  {fxpStat, func(id uint32) []byte { return append(good(fxpStat, id), good(fxpStat, id)...) }, "answers a request that was not made"},
		"an answer to the guard":       {fxpRemove, func(uint32) []byte { return ok(0) }, "answers a request that was not made"},
		"a handle for a status":        {fxpMkdir, func(id uint32) []byte { return good(fxpOpen, id) }, "answers with a packet of type 102 instead of 101"},
		"a status that is cut":         {fxpRemove, func(id uint32) []byte { return append(newPacket(fxpStatus).sealed(id), ok(id+1)...) }, "a status is too short"},
		"a long handle":                {fxpOpen, func(id uint32) []byte { return newPacket(fxpHandle).string(strings.Repeat("h", 257)).sealed(id) }, "the handle of a file is damaged"},
		"two paths":                    {fxpRealpath, func(id uint32) []byte { return newPacket(fxpName).uint32(2).string("a").sealed(id) }, "several names where one was asked for"},
		"a path without":               {fxpRealpath, func(id uint32) []byte { return newPacket(fxpName).uint32(1).string("").sealed(id) }, "without the name that was asked for"},
		"attributes that are cut":      {fxpStat, func(id uint32) []byte { return newPacket(fxpAttrs).uint32(AttrSize).uint32(1).sealed(id) }, "packet too short"},
		"entries that are missing":     {fxpReaddir, func(id uint32) []byte { return newPacket(fxpName).uint32(1 << 30).string("a").sealed(id) }, "a listing is damaged"},
		"answers without entries":      {fxpReaddir, func(id uint32) []byte { return newPacket(fxpName).uint32(0).sealed(id) }, "its listing goes on without entries"},
		"a packet beyond the limit":    {fxpRemove, func(uint32) []byte { return packet{}.uint32(maxPacket + 1).uint32(fxpStatus << 24).uint32(0) }, "where a packet should begin it sends"},
		"text in the place of packets": {fxpRemove, func(uint32) []byte { return []byte("Welcome to \x1b[1mhere") }, `sends "Welcome to \x1b[1mhere"`},
	} {
		t.Run(name, func(t *testing.T) {
			to := c.to
			if to == fxpReaddir {
				to = fxpOpendir
			}
			client := clientOf(t, newPeer(func(typ byte, id uint32, _ []byte) []byte {
				if typ == c.to {
					return c.send(id)
				}
				return good(typ, id)
			}))
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			err := requests[to](ctx, client)
			if name == "two answers" && err == nil {
				<-client.dead
				err = client.Cause()
			}
			if err == nil || !strings.Contains(err.Error(), "the server breaks the SFTP protocol: ") || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v; want %q", err, c.want)
			}
			if again := client.Mkdir(ctx, "y"); again == nil || again != client.Cause() {
				t.Errorf("the connection has ended with %v, and a further request with %v", client.Cause(), again)
			}
		})
	}
}

// TestGuardNotes: what the library leaves out of an answer is there: the words of a refusal,
// which attributes were sent, and names as they came.
func TestGuardNotes(t *testing.T) {
	var mu sync.Mutex
	listed := 0
	client := clientOf(t, newPeer(func(typ byte, id uint32, body []byte) []byte {
		switch typ {
		case fxpRemove:
			return newPacket(fxpStatus).uint32(statusNoSuchFile).string("no file of ours").sealed(id)
		case fxpRename:
			return newPacket(fxpStatus).uint32(statusPermission).string("ask ann").sealed(id)
		case fxpLstat:
			return newPacket(fxpAttrs).uint32(AttrTimes).uint32(1).uint32(2).sealed(id)
		case fxpReaddir:
			mu.Lock()
			defer mu.Unlock()
			if listed++; listed > 2 {
				return newPacket(fxpStatus).uint32(statusEOF).sealed(id)
			}
			plain := func(p packet, name string) packet {
				return p.string(name).string("").uint32(AttrSize | AttrPermissions | AttrTimes).uint64(5).uint32(ModeRegular | 0o640).uint32(1).uint32(2)
			}
			p := newPacket(fxpName).uint32(6)
			p = plain(p, "a")
			p = plain(p, ".")
			p = plain(p, "../../etc/passwd")
			p = p.string("b").string("drwxr-xr-x b").uint32(0)
			p = plain(p, "..")
			return plain(p, "").sealed(id)
		}
		return good(typ, id)
	}))
	ctx := t.Context()
	if err := client.Remove(ctx, "x"); err == nil || err.Error() != `no such file or directory (its words: "no file of ours")` || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is missing: %v", err)
	}
	if err := client.Rename(ctx, "x", "y"); err == nil || !strings.Contains(err.Error(), "ask ann") || !errors.Is(err, os.ErrPermission) {
		t.Errorf("what is not allowed: %v", err)
	}
	if a, err := client.Lstat(ctx, "x"); err != nil || a != (Attrs{Flags: AttrTimes, Mtime: 2}) {
		t.Errorf("the attributes are %+v, %v", a, err)
	}
	var got []Entry
	var bytes []int
	err := client.List(ctx, "x", 1<<20, func(e Entry) error { got = append(got, e); return nil }, func(n int) { bytes = append(bytes, n) })
	file := Attrs{Flags: AttrSize | AttrPermissions | AttrTimes, Size: 5, Mode: ModeRegular | 0o640, Mtime: 2}
	want := []Entry{{"a", file}, {"../../etc/passwd", file}, {"b", Attrs{Mode: ModeDir}}, {"", file}}
	if err != nil || !slices.Equal(got, slices.Concat(want, want)) || len(bytes) != 2 || bytes[1] != 2*bytes[0] {
		t.Errorf("the listing has %+v, of %v bytes, %v", got, bytes, err)
	}
	listed = 0
	if err := client.List(ctx, "x", 1000, func(Entry) error { return nil }, func(int) {}); err == nil || !strings.Contains(err.Error(), "the listing is longer than") {
		t.Errorf("a listing beyond the limit: %v", err)
	}
	listed = 0
	if n, err := client.Peek(ctx, "x"); n != 6 || err != nil || listed > 2 {
		t.Errorf("the first part has %d entries, %v, after %d questions", n, err, listed)
	}
}

// TestGuardOrder: requests are written in the order in which they are started, also while
// others wait for the channel.
func TestGuardOrder(t *testing.T) {
	var mu sync.Mutex
	var paths []string
	client := clientOf(t, newPeer(func(typ byte, id uint32, body []byte) []byte {
		return good(typ, id)
	}))
	p := client.guard.ch.(*peer)
	answer := p.answer
	client.guard.ch = writes{p, func(b []byte) {
		mu.Lock()
		defer mu.Unlock()
		for len(b) > 0 {
			n := 4 + binary.BigEndian.Uint32(b)
			paths = append(paths, string(b[13:n]))
			b = b[n:]
		}
	}}
	p.answer = answer
	var want []string
	var looks []*look
	for i := range 200 {
		path := strings.Repeat("x", i)
		l, err := client.startLook(t.Context(), fxpStat, path)
		if err != nil {
			t.Fatal(err)
		}
		want, looks = append(want, path), append(looks, l)
	}
	for _, l := range looks {
		if _, err := l.wait(t.Context(), client); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(paths, want) {
		t.Errorf("%d of %d are written in another order", len(paths), len(want))
	}
}

// TestGuardTogether: requests that come while others are being written go out in one piece.
func TestGuardTogether(t *testing.T) {
	var mu sync.Mutex
	var sizes []int
	client := clientOf(t, newPeer(func(typ byte, id uint32, body []byte) []byte { return good(typ, id) }))
	first := make(chan struct{})
	client.guard.ch = writes{client.guard.ch.(*peer), func(b []byte) {
		mu.Lock()
		sizes = append(sizes, len(b))
		n := len(sizes)
		mu.Unlock()
		if n == 1 {
			<-first
		}
	}}
	var looks []*look
	for range 50 {
		l, err := client.startLook(t.Context(), fxpStat, "x")
		if err != nil {
			t.Fatal(err)
		}
		looks = append(looks, l)
	}
	close(first)
	for _, l := range looks {
		if _, err := l.wait(t.Context(), client); err != nil {
			t.Fatal(err)
		}
	}
	if len(sizes) > 2 {
		t.Errorf("50 requests are written in %d pieces of %d bytes, want at most 2", len(sizes), sizes)
	}
}

// writes tells what is written to a peer.
type writes struct {
	*peer
	told func([]byte)
}

// Write writes.
func (w writes) Write(b []byte) (int, error) {
	w.told(b)
	return w.peer.Write(b)
}

// TestBusyFile: a file that is closed while requests that were given up are under way waits
// for them, and gives the connection up if they don't end.
func TestBusyFile(t *testing.T) {
	for _, answered := range []bool{true, false} {
		release := make(chan struct{})
		client := clientOf(t, newPeer(func(typ byte, id uint32, body []byte) []byte {
			if typ == fxpRead && body[len(body)-5] == 0 { // of the offset 0
				<-release
				return newPacket(fxpData).string("1234567890").sealed(id)
			}
			return good(typ, id)
		}))
		f, err := client.Open(t.Context(), "x", os.O_RDONLY)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(20*time.Millisecond, cancel)
		if answered {
			time.AfterFunc(100*time.Millisecond, func() { close(release) })
		}
		r := Reading{Workers: OneWorker(f), Size: 10, To: new(strings.Builder), Progress: func(int64) {}}
		if err := r.Run(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("a reading that was cancelled: %v", err)
		}
		if f.Close(ctx); answered != (client.Cause() == nil) {
			t.Errorf("answered is %t, and the connection has ended with %v", answered, client.Cause())
		}
		if !answered {
			close(release)
		}
	}
}

// TestGuardRemove: what the server does not remove as a file is not removed as a directory,
// which the library would ask for.
func TestGuardRemove(t *testing.T) {
	var mu sync.Mutex
	var asked []byte
	client := clientOf(t, newPeer(func(typ byte, id uint32, _ []byte) []byte {
		mu.Lock()
		defer mu.Unlock()
		if asked = append(asked, typ); typ == fxpRemove {
			return newPacket(fxpStatus).uint32(statusFailure).string("is a directory").sealed(id)
		}
		return good(typ, id)
	}))
	if err := client.Remove(t.Context(), "x"); err == nil || !strings.Contains(err.Error(), "is a directory") || !IsStatus(err) {
		t.Errorf("the removal of a directory as a file: %v", err)
	}
	if slices.Contains(asked, fxpRmdir) {
		t.Errorf("the requests %v remove a directory", asked)
	}
	if err := client.Rmdir(t.Context(), "x"); err != nil || asked[len(asked)-1] != fxpRmdir {
		t.Errorf("the removal of a directory: %v, by the requests %v", err, asked)
	}
}

// TestNeverBegun: a request that was given up before it was begun keeps nobody waiting.
func TestNeverBegun(t *testing.T) {
	client := clientOf(t, newPeer(func(typ byte, id uint32, _ []byte) []byte { return good(typ, id) }))
	f, err := client.Open(t.Context(), "x", os.O_RDONLY)
	if err != nil {
		t.Fatal(err)
	}
	<-client.guard.turn // another request is about to be sent
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.read(ctx, make([]byte, 1), 0); !errors.Is(err, context.Canceled) {
		t.Errorf("a request whose turn does not come: %v", err)
	}
	client.guard.turn <- struct{}{}
	if f.Close(t.Context()); client.Cause() != nil {
		t.Errorf("the connection has ended with %v", client.Cause())
	}
}
