package sftp_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/internal/test/memnet"
	"github.com/courierhq/courier/internal/test/sftpserver"
	"github.com/courierhq/courier/internal/test/steprig"
	"github.com/courierhq/courier/steps/sftp"
)

const pipeline = `{"name": "forward", "failure_policy": {"type": "retry_step", "max_retries": 3}, "steps": [
	{"id": "in", "type": "sftp.list", "config": {"connection_id": "partner", "remote_path": "/incoming", "pattern": "*.csv"}},
	{"type": "flow.foreach", "config": {"source": "context:in.file_list"}},
	{"id": "get", "type": "sftp.download", "config": {"connection_id": "partner", "remote_path": "context:loop.current_item.path",
		"expected_size": "context:loop.current_item.size"}},
	{"type": "flow.if", "config": {"left": "context:loop.current_item.size", "operator": "greater_than", "right": "1000"}},
	{"type": "sftp.upload", "config": {"connection_id": "partner", "local_path": "context:get.downloaded_file", "remote_path": "/large/"}},
	{"type": "flow.else", "config": {}},
	{"type": "sftp.upload", "config": {"connection_id": "partner", "local_path": "context:get.downloaded_file", "remote_path": "/small/${context:loop.index}-${context:loop.current_item.name}"}},
	{"type": "flow.end", "config": {}},
	{"type": "flow.end", "config": {}}]}`

// TestPipeline runs a whole job on an engine, on a line that breaks now and
// then.
func TestPipeline(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		r := newRig(t, sftpserver.Options{})
		for i := range 10 {
			r.Put(fmt.Sprintf("incoming/%d.csv", i), steprig.Content(200*i))
		}
		r.Put("incoming/other.txt", nil)
		r.Put("large/keep", nil)
		r.Put("small/keep", nil)
		r.net.SetLink(func(n int) memnet.Link {
			down := int64(4000 + 500*n)
			if n > 5 {
				return memnet.Link{}
			}
			return memnet.Link{Down: memnet.Flow{CutAfter: &down}}
		})
		sftp.Register(h.Registry, sftp.Map{steprig.Partner: r.conn})
		h.Run(h.Job(pipeline), nil).RequireState(courier.Completed)
		for i := range 10 {
			name := fmt.Sprintf("small/%d-%d.csv", i, i)
			if i > 5 {
				name = fmt.Sprintf("large/%d.csv", i)
			}
			if r.Get(name) != string(steprig.Content(200*i)) {
				t.Errorf("%s differs: %.60q", name, r.Get(name))
			}
		}
		if files := steprig.Tree(t, r.Remote); len(files) != 23 {
			t.Errorf("remote files: %q", files)
		}
		if n := r.net.Dialed(); n < 3 {
			t.Errorf("%d connections: the line did not break", n)
		}
	})
}

// TestStall has the server fall silent: the engine gives the attempt up after a
// minute, and the next one succeeds on another connection.
func TestStall(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		hung := false
		r := newRig(t, sftpserver.Options{Fault: func(o sftpserver.Op) error {
			if o.Method == "read" && !hung {
				hung = true
				return sftpserver.ErrHang
			}
			return nil
		}})
		r.Put("x", steprig.Content(1000))
		sftp.Register(h.Registry, sftp.Map{steprig.Partner: r.conn})
		start := time.Now()
		result := h.Run(h.Job(`{"name": "get", "failure_policy": {"type": "retry_step", "max_retries": 1}, "steps": [
			{"type": "sftp.download", "config": {"connection_id": "partner", "remote_path": "x"}}]}`), nil).RequireState(courier.Completed)
		if took := time.Since(start); took < time.Minute || took > 70*time.Second {
			t.Errorf("it took %v", took)
		}
		if first := result.Steps[0]; len(result.Steps) != 2 || !strings.Contains(first.Error, "stalled") {
			t.Errorf("steps: %+v", result.Steps)
		}
		result.RequireValue("0.file_count", 1)
	})
}
