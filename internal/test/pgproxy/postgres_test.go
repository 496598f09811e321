package pgproxy_test

import (
	"context"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/courierhq/courier/internal/test/pgproxy"
	"github.com/courierhq/courier/internal/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// insert commits a row through the proxy.
func insert(ctx context.Context, url string, id int) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, "insert into rows (id) values ($1)", id); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

// TestPostgres cuts the connection of a transaction at each of its messages.
// Where the cut lies decides whether the row is there.
func TestPostgres(t *testing.T) {
	direct := pgtest.URL(t)
	config, err := pgx.ParseConfig(direct)
	if err != nil {
		t.Fatal(err)
	}
	target := net.JoinHostPort(config.Host, strconv.Itoa(int(config.Port)))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, direct)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(ctx, "create table rows (id int primary key)"); err != nil {
		t.Fatal(err)
	}
	committed := func(id int) (there bool) {
		t.Helper()
		// To insert it waits for a transaction that the cut has left behind.
		err := conn.QueryRow(ctx, `with mine as (insert into rows (id) values ($1) on conflict do nothing returning id)
			select not exists (select from mine)`, id).Scan(&there)
		if err != nil {
			t.Fatal(err)
		}
		return there
	}

	id, failed, cut := 0, 0, true
	for at := 1; cut; at++ {
		for _, action := range []pgproxy.Action{pgproxy.CutBefore, pgproxy.CutAfter} {
			p := pgproxy.New(t, target)
			through, err := p.URL(direct)
			if err != nil {
				t.Fatal(err)
			}
			count, sent := 0, false
			cut = false
			p.OnMessage(func(m pgproxy.Message) pgproxy.Action {
				count++
				does := pgproxy.Pass
				if count == at {
					cut, does = true, action
				}
				if !m.FromServer && m.Type == 'Q' && string(m.Body) == "commit\x00" {
					sent = does != pgproxy.CutBefore
				}
				return does
			})
			id++
			err = insert(ctx, through, id)
			p.Close()
			if ctx.Err() != nil {
				t.Fatalf("%v at message %d: %v", action, at, err)
			}
			if there := committed(id); there != sent || err == nil && !there {
				t.Errorf("%v at message %d: committed: %t; the commit was delivered: %t; the client got %v", action, at, there, sent, err)
			}
			if err != nil {
				failed++
			}
		}
	}
	if failed < 50 {
		t.Errorf("%d of %d transactions failed, which is too few", failed, id)
	}
}
