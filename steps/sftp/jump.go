package sftp

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/connfile"
	"github.com/courierhq/courier/internal/nearest"
	"github.com/courierhq/courier/internal/safename"
	"github.com/courierhq/courier/internal/sftpclient"
)

// maxJumps is the maximum number of servers through which a connection may be reached.
const maxJumps = 5

// through returns a Dial function that connects through the SSH server of the connection called
// id.
func through(job *courier.Context, all Connections, id string, above []string) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, _, addr string) (net.Conn, error) {
		if err := checkJump(id, above); err != nil {
			return nil, courier.Permanent(err)
		}
		c, err := connfile.Lookup(ctx, all.Connection, id)
		if err != nil {
			return nil, fmt.Errorf("jump: %w", err)
		}
		s, err := dialVia(ctx, job, all, id, c, sftpclient.DialJump, above...)
		if err != nil {
			return nil, err
		}
		s.warn(job.Log())
		conn, err := s.Tunnel(ctx, addr)
		if err != nil {
			s.Close()
			return nil, s.fault("jump to "+addr, "", err)
		}
		return conn, nil
	}
}

// checkJump returns an error unless the connections above may be reached through the connection
// called id.
func checkJump(id string, above []string) error {
	if !slices.Contains(above, id) && len(above) <= maxJumps {
		return nil
	}
	return connfile.Wrong("jump", "jump: the connections %s lead in a circle or over more than %d servers", strings.Join(append(slices.Clone(above), id), ", "), maxJumps)
}

// checkJumps reports the errors of the jumps through which a connection is reached.
func checkJumps(id string, all map[string]Connection) error {
	above := []string{id}
	for next := all[id].Jump; next != ""; next = all[next].Jump {
		if _, ok := all[next]; !ok && len(above) > 1 {
			return nil // that connection says so
		} else if !ok {
			return connfile.Wrong("jump", "jump: no connection %s; %s", safename.Quote(next), nearest.DidYouMean(next, slices.Sorted(maps.Keys(all))))
		}
		if err := checkJump(next, above); err != nil {
			return err
		}
		above = append(above, next)
	}
	return nil
}
