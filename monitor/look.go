package monitor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/store"
)

// lookPrefix is the prefix of the names of monitors that are looks of expectations.
const lookPrefix = "expectation:"

// LookName returns the name of the monitor of an expectation that polls a directory itself.
func LookName(expectation string) string { return lookPrefix + expectation }

// lookKind is the Kind of the record of a look, whose Target is the expectation.
const lookKind store.Kind = "expectation"

// Look returns the record of the monitor with which an expectation polls a directory itself. The
// monitor is polled like any other, and starts nothing. Look uses the fields Expectation, Lister,
// Connection, Path, Patterns and Every of m. If Lister is empty, it is the lister of the
// machine's directories, or the only lister that knows the connection. Problems name these fields
// as in a monitor.
func (v *Service) Look(ctx context.Context, m Monitor) (Record, []courier.Problem) {
	m.Name = LookName(m.Expectation)
	problems := v.chooseLister(ctx, &m)
	if len(problems) == 0 {
		problems = v.checkLister(&m)
	}
	body, err := jsontext.Append(nil, m.Definition())
	if err != nil {
		problems = append(problems, courier.Problem{Step: -1, Field: "path", Message: err.Error()})
	}
	return Record{
		Name: m.Name, Lister: m.WithDefaults().Lister, Kind: lookKind, Target: m.Expectation, Body: body,
		Status: Status{State: Active, Health: []byte("{}")},
	}, problems
}

// chooseLister sets the lister of a directory on a server, if none is given, and checks that its
// connection is known.
func (v *Service) chooseLister(ctx context.Context, m *Monitor) []courier.Problem {
	if m.Connection == "" {
		return nil
	}
	names := slices.Sorted(maps.Keys(v.opt.Listers))
	if m.Lister != "" {
		if names = []string{m.Lister}; v.opt.Listers[m.Lister] == nil {
			return nil // checkLister reports it
		}
	}
	var fit, why []string
	for _, name := range names {
		l := v.opt.Listers[name]
		var err error
		if c, ok := l.(courier.Connected); ok {
			err = c.CheckConnection(ctx, m.Connection)
		} else {
			err = l.Check(m.Directory())
		}
		if err == nil {
			fit = append(fit, name)
		} else {
			why = append(why, name+": "+strings.TrimPrefix(plainMessage(err), "connection_id: "))
		}
	}
	problem := func(field, format string, args ...any) []courier.Problem {
		return []courier.Problem{{Step: -1, Field: field, Message: fmt.Sprintf(format, args...)}}
	}
	switch {
	case len(fit) == 1:
		m.Lister = fit[0]
	case len(fit) > 1:
		return problem("lister", "%s can list connection %q; name one of them", strings.Join(fit, " and "), m.Connection)
	case len(why) == 0:
		return problem("connection_id", "this engine has no listers; see engine.Options.Listers")
	default:
		return problem("connection_id", "no lister can list connection %q: %s", m.Connection, strings.Join(why, "; "))
	}
	return nil
}

// PollSoon makes Run ask at once which monitors are due, for example after one was saved with an
// expectation.
func (v *Service) PollSoon() { v.loop.Now() }

// refuseLook returns the error of an attempt to remove the look of an expectation.
func refuseLook(name string) error {
	if of, ok := strings.CutPrefix(name, lookPrefix); ok {
		return courier.Errorf(courier.ErrConflict, "it belongs to expectation %q; remove the expectation, or change where it expects files", of)
	}
	return nil
}
