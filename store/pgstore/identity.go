package pgstore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"time"
)

// StoreID implements [store.Identity]. The id is a hash of the instant at which the schema
// was created. A copy of the schema, such as a restored backup, has the same.
func (s *Store) StoreID(ctx context.Context) (string, error) {
	if err := s.checkOpen(ctx); err != nil {
		return "", err
	}
	if id := s.id.Load(); id != nil {
		return *id, nil
	}
	var created time.Time
	err := repeat(ctx, func() error { return s.pool.QueryRow(ctx, s.sql("health/identity")).Scan(&created) })
	if err != nil {
		return "", failed("read the id of the store", err)
	}
	sum := sha256.Sum256(strconv.AppendInt([]byte("courier store "), created.UnixMicro(), 10))
	id := hex.EncodeToString(sum[:16])
	s.id.Store(&id)
	return id, nil
}
