package pgtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"syscall"
	"testing"
	"time"
)

// Reload changes settings of postgresql.conf, and lets the server reload them if
// it runs. When it returns they hold for new sessions, and for the others from
// their next statement. Those that need a restart wait for one.
func (c *Cluster) Reload(t testing.TB, config map[string]string) {
	t.Helper()
	check(t, c.reload(config))
}

func (c *Cluster) reload(config map[string]string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	before, err := c.rewrite(ctx, config)
	if err != nil || before.IsZero() {
		return err
	}
	question := fmt.Sprintf("select pg_conf_load_time() > '%s'", before.Format(time.RFC3339Nano))
	if err := await(c.URL(""), question); err != nil {
		return err
	}
	faults, err := ask[string](ctx, c.URL(""), `select coalesce(string_agg(concat_ws(': ', name, error), '; '), '')
		from pg_file_settings where error is not null and error <> 'setting could not be applied'`)
	if err == nil && faults != "" {
		err = errors.New("settings: " + faults)
	}
	return err
}

// rewrite writes the settings and tells the server, if it runs. It returns when
// the server loaded the ones before.
func (c *Cluster) rewrite(ctx context.Context, config map[string]string) (before time.Time, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.up {
		if before, err = ask[time.Time](ctx, c.URL(""), "select pg_conf_load_time()"); err != nil {
			return before, err
		}
	}
	maps.Copy(c.config, config)
	if err := c.configure(); err != nil || !c.up {
		return before, err
	}
	return before, c.server.signal(syscall.SIGHUP)
}
