package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// trips counts round trips: how often something was sent after something had
// been received. A nil one counts nothing.
type trips struct{ n atomic.Int64 }

// count makes the connections of a configuration count.
func (t *trips) count(config *pgx.ConnConfig) {
	if t == nil {
		return
	}
	dial := config.DialFunc
	config.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &countedConn{Conn: c, trips: t}, nil
	}
}

type countedConn struct {
	net.Conn
	trips *trips
	sent  atomic.Bool // and nothing received since
}

func (c *countedConn) Write(b []byte) (int, error) {
	if !c.sent.Swap(true) {
		c.trips.n.Add(1)
	}
	return c.Conn.Write(b)
}

func (c *countedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.sent.Store(false)
	}
	return n, err
}

// clientCPU returns the time that the processors have spent on this process.
func clientCPU() (time.Duration, error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, err
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}

// A postmaster is the first process of a server on this machine.
type postmaster int

// findPostmaster returns the parent of a session's process. It is 0 if the
// server runs on another machine or its processes can't be seen.
func findPostmaster(ctx context.Context, pool *pgxpool.Pool) (postmaster, error) {
	var pid int
	if err := pool.QueryRow(ctx, "select pg_backend_pid()").Scan(&pid); err != nil {
		return 0, err
	}
	command, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || !strings.HasPrefix(string(command), "postgres") {
		return 0, nil
	}
	p, err := readProcess(pid)
	if err != nil {
		return 0, nil
	}
	return postmaster(p.parent), nil
}

// cpu returns the time that the processors have spent on the server: on its
// processes that live, and on those that have ended.
func (m postmaster) cpu() (time.Duration, error) {
	if m == 0 {
		return 0, nil
	}
	root, err := readProcess(int(m))
	if err != nil {
		return 0, err
	}
	ticks := root.own + root.children
	list, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0, err
	}
	for _, dir := range list {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		// A process may end at any time; its ticks are the postmaster's then.
		if p, err := readProcess(pid); err == nil && p.parent == int(m) {
			ticks += p.own + p.children
		}
	}
	const second = 100 // ticks, in all that /proc tells
	return time.Duration(ticks) * time.Second / second, nil
}

type process struct {
	parent        int
	own, children int64 // ticks
}

// readProcess reads what the system says of a process in its file stat.
func readProcess(pid int) (process, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return process{}, err
	}
	return parseStat(string(text))
}

// parseStat parses a file stat of /proc. The name of the program, in
// parentheses, may hold anything.
func parseStat(text string) (process, error) {
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) < 15 {
		return process{}, fmt.Errorf("stat of a process: %q", text)
	}
	var n [5]int64
	for i, field := range []int{1, 11, 12, 13, 14} {
		v, err := strconv.ParseInt(fields[field], 10, 64)
		if err != nil {
			return process{}, fmt.Errorf("stat of a process: %w", err)
		}
		n[i] = v
	}
	return process{parent: int(n[0]), own: n[1] + n[2], children: n[3] + n[4]}, nil
}
