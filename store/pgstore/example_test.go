package pgstore_test

import (
	"context"
	"fmt"
	"log"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/store/pgstore"
)

// A service on PostgreSQL. The pool is the host's; Migrate runs on deployment.
func ExampleNew() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, "postgres://user:password@localhost/database")
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	if _, err := pgstore.Migrate(ctx, pool, nil); err != nil {
		log.Fatal(err)
	}
	s, err := pgstore.New(ctx, pool, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	var reg courier.Registry
	e := engine.New(s, &reg, nil)
	if err := e.Start(ctx); err != nil {
		log.Fatal(err)
	}
	defer e.Stop(ctx)
}

// The statements that give the roles of a deployment their rights.
func ExampleGrants() {
	text := pgstore.Grants("courier", pgstore.Roles{Engine: "courier_engine"})
	fmt.Println(len(text) > 0)
	// Output:
	// true
}
