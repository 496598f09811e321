package sftpclient

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"
)

// Finish makes durable what was written to the remote file path, closes it, and
// compares its size, in one round trip. Open are the channels on which it is open.
// With from, which has the whole content of at most WriteChunk bytes, the file is
// written before.
func Finish(ctx context.Context, open []File, path string, size int64, from io.ReaderAt) error {
	return finishing{open, path, size, from}.run(ctx)
}

// A finishing makes durable what was written to a remote file, closes it, and
// compares its size, in one round trip. Some servers write in earnest, and
// report a full disk, only when a file is closed.
type finishing struct {
	open []File
	path string
	size int64       // that the file must have
	from io.ReaderAt // if not nil, the whole content, which is written before and fits into a packet
}

func (f finishing) run(ctx context.Context) error {
	first := f.open[0]
	others, err := f.closeOthers()
	if err != nil {
		return err
	}
	calls, err := f.send(ctx)
	if err != nil {
		return err
	}
	for i, cl := range others {
		if _, err := f.open[i+1].expect(ctx, cl, fxpStatus); err != nil {
			return err
		}
	}
	closed, look := calls[:len(calls)-1], calls[len(calls)-1]
	began := time.Now()
	for i, cl := range closed {
		_, err := first.expect(ctx, cl, fxpStatus)
		if first.canSync() && i == len(closed)-2 {
			err = unlessUnsupported(err)
			if i > 0 {
				first.synced(time.Since(began))
			}
		}
		if err != nil {
			return err
		}
		began = time.Now()
	}
	a, err := first.attrsOf(ctx, look)
	if err == nil && SizeIs(a, f.size) == nil {
		return nil
	}
	// Perhaps the server has looked before it was done.
	if a, err = first.Stat(ctx, f.path); err != nil {
		return fmt.Errorf("the size of what was written: %w", err)
	}
	return SizeIs(a, f.size)
}

// closeOthers sends the requests that close the further channels.
func (f finishing) closeOthers() ([]*call, error) {
	var calls []*call
	for _, l := range f.open[1:] {
		cl := newCall(nil)
		if err := l.send(pathPacket(fxpClose, l.Handle), cl); err != nil {
			return nil, err
		}
		calls = append(calls, cl)
	}
	return calls, nil
}

// send sends the requests about the first channel.
func (f finishing) send(ctx context.Context) ([]*call, error) {
	first := f.open[0]
	text := Texts.Get().(*[]byte)
	defer Texts.Put(text)
	b := batch{text: (*text)[:0]}
	if f.from != nil && f.size > 0 {
		if err := f.addContent(&b); err != nil {
			(&Workers{Files: f.open[:1]}).Close(ctx)
			return nil, err
		}
	}
	if first.canSync() {
		b.add(syncPacket(first.Handle), nil)
	}
	b.add(pathPacket(fxpClose, first.Handle), nil)
	b.add(pathPacket(fxpStat, f.path), nil)
	*text = b.text
	return b.send(first.Client)
}

// addContent adds the request that writes all of the file.
func (f finishing) addContent(b *batch) error {
	n := int(f.size)
	b.text = slices.Grow(b.text, n+1<<10)
	begin := len(b.text)
	p := packet(b.text[begin : begin+9])
	clear(p)
	p[4] = fxpWrite
	p = p.string(f.open[0].Handle).uint64(0).uint32(uint32(n))
	data := p[len(p) : len(p)+n]
	if got, err := f.from.ReadAt(data, 0); got < n && err == io.EOF {
		return ErrShrank
	} else if got < n {
		return err
	}
	b.add(p[:len(p)+n], nil)
	return nil
}
