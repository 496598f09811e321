package pgtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Standby makes a copy of the cluster that follows it as a hot standby and lasts
// as long as the test. The copy has streamed its first bytes when Standby
// returns. What is committed afterwards can miss a promotion, unless the cluster
// waits for the standby, as it does after Reload with synchronous_standby_names
// set to "*".
func (c *Cluster) Standby(t testing.TB) *Cluster {
	t.Helper()
	s, err := c.standby()
	check(t, err)
	s.closeWith(t)
	return s
}

func (c *Cluster) standby() (*Cluster, error) {
	c.mu.Lock()
	config := maps.Clone(c.config)
	c.mu.Unlock()
	s, err := prepare(filepath.Dir(c.dir), config)
	if err != nil {
		return nil, err
	}
	s.password = c.password
	err = s.run("pg_basebackup", "--host=127.0.0.1", "--port="+strconv.Itoa(c.port), "--username=postgres",
		"--pgdata=data", "--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast", "--no-sync")
	if err == nil {
		err = s.first()
	}
	if err == nil {
		err = await(c.URL(""), "select exists (select from pg_stat_replication where state = 'streaming')")
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Promote makes a standby a server of its own, and waits until it takes writes.
func (c *Cluster) Promote(t testing.TB) {
	t.Helper()
	check(t, await(c.URL(""), "select not pg_is_in_recovery() or pg_promote()"))
}

// await asks the server, on a new connection each time, until the answer is
// true.
func await(server, question string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		yes, err := ask[bool](ctx, server, question)
		if err != nil || yes {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: still false after %v", question, patience)
		case <-time.After(pause):
		}
	}
}

// FailoverURL returns the address of a database on whichever of the clusters
// takes writes, of the one called postgres if the name is empty. They must be a
// cluster and its standbys.
func FailoverURL(database string, clusters ...*Cluster) string {
	var addrs []string
	for _, c := range clusters {
		addrs = append(addrs, c.Addr())
	}
	first := clusters[0]
	return strings.Replace(first.URL(database), first.Addr(), strings.Join(addrs, ","), 1) + "&target_session_attrs=read-write"
}
