package migrate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/courierhq/courier/store/pgstore/internal/sqltext"
)

// Identity returns a function that identifies a schema: it returns a hash of the instant at which
// the schema was created. The function may be called by several goroutines.
func Identity(db interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}, schema string) func(context.Context) (string, error) {
	var known atomic.Pointer[string]
	return func(ctx context.Context) (string, error) {
		if id := known.Load(); id != nil {
			return *id, nil
		}
		var created time.Time
		if err := db.QueryRow(ctx, sqltext.ForSchema("select m.applied_at from courier.schema_migrations m order by m.version limit 1", schema)).Scan(&created); err != nil {
			return "", fmt.Errorf("read the id of the store: %w", err)
		}
		sum := sha256.Sum256(strconv.AppendInt([]byte("courier store "), created.UnixMicro(), 10))
		id := hex.EncodeToString(sum[:16])
		known.Store(&id)
		return id, nil
	}
}
