package pgpstream_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp/packet"

	"github.com/courierhq/courier/internal/pgpstream"
	"github.com/courierhq/courier/internal/test/pgptest"
	"github.com/courierhq/courier/internal/test/raced"
)

// tinyMessages are messages of many packets, or pieces of packets, that hold next
// to nothing. Each of them has size bytes before it is compressed.
func tinyMessages(t *testing.T, size int) map[string][]byte {
	t.Helper()
	repeat := func(text string) []byte { return []byte(strings.Repeat(text, size/len(text))) }
	literal := append([]byte("\xcb\xe9b\x00\x00\x00\x00\x00"), bytes.Repeat([]byte("a"), 506)...) // the first piece has 512 bytes
	all := map[string][]byte{
		"packets": repeat("\xe8\x00"), "markers": repeat("\xca\x03PGP"), "old packets": repeat("\xb0\x00"), "padding": repeat("\xd5\x01x"),
		"pieces":              append(append(literal, repeat("\xe0a")...), 1, 'a'),
		"content and packets": append([]byte("\xcb\x07b\x00\x00\x00\x00\x00a"), repeat("\xe8\x00")...),
	}
	all["packets, compressed"] = pgptest.Compressed(t, packet.CompressionZLIB, all["packets"])
	all["pieces, compressed"] = pgptest.Compressed(t, packet.CompressionZIP, all["pieces"])
	more := bytes.Repeat([]byte("\xe8\x00"), 20<<19) // larger than what may be unpacked
	all["packets, compressed twice"] = pgptest.Compressed(t, packet.CompressionZIP, pgptest.Compressed(t, packet.CompressionZIP, more, more))
	return all
}

// readPackets returns how long the library takes to read a number of empty packets, which
// is the measure: machines differ, and this one may be busy.
func readPackets(t *testing.T, n int) time.Duration {
	t.Helper()
	began := time.Now()
	r := packet.NewReader(strings.NewReader(strings.Repeat("\xe8\x00", n)))
	for {
		if _, err := r.Next(); err != nil {
			if !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
			return time.Since(began)
		}
	}
}

// TestTinyPackets reads messages of 8 MiB of empty packets, where each costs as
// much time as a kilobyte of content: they are refused before they take long. Those that
// are compressed twice are read up to MaxBytes, in forty times the measure.
func TestTinyPackets(t *testing.T) {
	if raced.On {
		return // it measures time, which the run without the race detector has
	}
	b := newBench(t)
	us := b.key("us")
	for name, message := range tinyMessages(t, 8<<20) {
		within := func(what string, f func() error, want string) {
			t.Helper()
			most := 200 * readPackets(t, 1<<19)
			began := time.Now()
			err := f()
			if took := time.Since(began); took > most {
				t.Errorf("%s of %s took %v, more than %v", what, name, took, most)
			}
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s of %s: %v, want %q", what, name, err, want)
			}
		}
		want := "too many tiny packets"
		if strings.HasSuffix(name, "twice") {
			want = "raise MaxBytes"
		}
		within("Verify", func() error {
			_, _, err := b.verify(message, nil)
			return err
		}, want)
		session, body := pgptest.SealPackets(t, us, message)
		within("Decrypt", func() error {
			_, _, err := b.decrypt(append(session, pgptest.Packet(18, body)...), pgpstream.DecryptOptions{})
			return err
		}, want)
	}
}
