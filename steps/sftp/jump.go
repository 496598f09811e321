package sftp

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/connfile"
	"github.com/courierhq/courier/internal/sftpclient"
)

// maxJumps is over how many servers a connection may lead.
const maxJumps = 5

// through returns a Dial function that goes over the SSH server of the
// connection called id.
func through(job *courier.Context, all Connections, id string, above []string) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, _, addr string) (net.Conn, error) {
		if slices.Contains(above, id) || len(above) > maxJumps {
			return nil, courier.Permanent(fmt.Errorf("jump: the connections %s lead in a circle or over more than %d servers",
				strings.Join(append(slices.Clone(above), id), ", "), maxJumps))
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
