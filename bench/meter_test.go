package main

import (
	"context"
	"net"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"
)

func TestParseStat(t *testing.T) {
	got, err := parseStat("42 (postgres: a) b (c)) S 7 42 42 0 -1 4194560 100 0 0 0 11 22 33 44 20 0 1 0 99 1000\n")
	if want := (process{parent: 7, own: 33, children: 77}); err != nil || got != want {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	for _, text := range []string{"", "42 (x) S 7", "42 (x) S p 42 42 0 -1 4194560 100 0 0 0 11 22 33 44 20"} {
		if _, err := parseStat(text); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
	own, err := readProcess(os.Getpid())
	if err != nil || own.parent != os.Getppid() {
		t.Errorf("own process: %+v, %v, want parent %d", own, err, os.Getppid())
	}
}

// What is sent in pieces, and answered in pieces, is one round trip.
func TestTrips(t *testing.T) {
	client, server := net.Pipe()
	defer server.Close()
	var tr trips
	config := &pgx.ConnConfig{}
	config.DialFunc = func(context.Context, string, string) (net.Conn, error) { return client, nil }
	tr.count(config)
	conn, err := config.DialFunc(t.Context(), "tcp", "")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var failed error
	note := func(_ int, err error) {
		if err != nil {
			failed = err
		}
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b := make([]byte, 1)
		for range 2 {
			for range 2 {
				server.Read(b)
			}
			for range 2 {
				server.Write(b)
			}
		}
	}()
	b := make([]byte, 1)
	for range 2 {
		for range 2 {
			note(conn.Write(b))
		}
		for range 2 {
			note(conn.Read(b))
		}
	}
	<-ended
	if n := tr.n.Load(); n != 2 || failed != nil {
		t.Errorf("%d round trips, error %v, want 2", n, failed)
	}
}
