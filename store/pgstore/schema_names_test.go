package pgstore_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/internal/test/pgtest"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/pgstore"
)

// TestSchemaNames has schemas with names that mean something in SQL, in the texts
// of the statements, or to the driver.
func TestSchemaNames(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	for i, schema := range []string{
		"--", "/* outbox */", "/* filter */", "a'b \"$1\"", "job_schedules", "courier.",
	} {
		t.Run(fmt.Sprintf("%q", schema), func(t *testing.T) {
			modes := []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeSimpleProtocol}
			for _, mode := range modes[i%2 : i%2+1] {
				pool := newPool(t, url, mode)
				s, ok := reopen(t, pool, &pgstore.Options{Schema: schema}).(*pgstore.Store)
				if !ok {
					t.Fatal("no store")
				}
				oneExecution(t, s)
				if list, err := s.Executions(t.Context(), store.Filter{Job: "odd"}); err != nil || len(list) != 1 {
					t.Errorf("%d executions, %v", len(list), err)
				}
				if _, err := s.ChainExecutions(t.Context(), chain.Filter{Chain: "none"}); err != nil {
					t.Error(err)
				}
				put, err := s.PutSchedule(t.Context(), schedule.Record{Name: "s", Kind: store.Chain, Target: "c", Body: []byte(`{}`)})
				if err != nil || put.Kind != store.Chain {
					t.Errorf("%v, %v", put.Kind, err)
				}
				health(t, s)
				s.Close()
			}
		})
	}
	pool := dial(t, url)
	for _, schema := range []string{"a\x00b", "\xff", strings.Repeat("x", 64), "pg_x"} {
		started := time.Now()
		_, migrated := pgstore.Migrate(t.Context(), pool, &pgstore.MigrateOptions{Schema: schema})
		_, opened := pgstore.New(t.Context(), pool, &pgstore.Options{Schema: schema})
		if migrated == nil || opened == nil || time.Since(started) > 5*time.Second {
			t.Errorf("%q: %v, %v after %v", schema, migrated, opened, time.Since(started))
		}
	}
}
