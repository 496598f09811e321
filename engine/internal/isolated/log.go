package isolated

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"time"

	"github.com/courierhq/courier/internal/jsontext"
)

// A record is a record of a step's log.
type record struct {
	Time    time.Time `json:"time"`
	Level   int       `json:"level"`
	Message string    `json:"message"`
	Attrs   []attr    `json:"attrs,omitempty"`
}

// An attr is an attribute of a record. Its value is in the field of its kind.
type attr struct {
	Key      string          `json:"key"`
	String   *string         `json:"string,omitempty"`
	Int      *int64          `json:"int,omitempty"`
	Uint     *uint64         `json:"uint,omitempty"`
	Float    *float64        `json:"float,omitempty"`
	Bool     *bool           `json:"bool,omitempty"`
	Duration *time.Duration  `json:"duration,omitempty"`
	Time     *time.Time      `json:"time,omitempty"`
	Group    []attr          `json:"group,omitempty"`
	Any      json.RawMessage `json:"any,omitempty"`
}

// A logHandler sends the records of a step's log to the parent.
type logHandler struct {
	conn   *conn
	level  slog.Level
	groups []group // that are open, outermost first
}

// A group has the attributes that a logger has got while the group was the innermost one.
// The first one, without a name, is that of the record itself.
type group struct {
	name  string
	attrs []attr
}

func (h *logHandler) Enabled(_ context.Context, level slog.Level) bool { return level >= h.level }

func (h *logHandler) WithGroup(name string) slog.Handler {
	c := *h
	c.groups = append(h.open(), group{name: name})
	return &c
}

func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	c := *h
	c.groups = h.open()
	last := &c.groups[len(c.groups)-1]
	last.attrs = slices.Clip(last.attrs)
	for _, a := range attrs {
		last.attrs = appendAttr(last.attrs, a)
	}
	return &c
}

// open returns a copy of the open groups.
func (h *logHandler) open() []group {
	if len(h.groups) == 0 {
		return []group{{}}
	}
	return slices.Clone(h.groups)
}

func (h *logHandler) Handle(_ context.Context, r slog.Record) error {
	groups := h.open()
	var attrs []attr
	r.Attrs(func(a slog.Attr) bool {
		attrs = appendAttr(attrs, a)
		return true
	})
	for _, g := range slices.Backward(groups) {
		attrs = append(slices.Clip(g.attrs), attrs...)
		if g.name != "" && len(attrs) > 0 {
			attrs = []attr{{Key: g.name, Group: attrs}}
		}
	}
	return h.conn.send(&frame{Log: &record{r.Time, int(r.Level), r.Message, attrs}})
}

// appendAttr appends the form in which an attribute is sent.
func appendAttr(list []attr, a slog.Attr) []attr {
	v := a.Value.Resolve()
	sent := attr{Key: a.Key}
	switch v.Kind() {
	case slog.KindBool:
		sent.Bool = ptr(v.Bool())
	case slog.KindInt64:
		sent.Int = ptr(v.Int64())
	case slog.KindUint64:
		sent.Uint = ptr(v.Uint64())
	case slog.KindDuration:
		sent.Duration = ptr(v.Duration())
	case slog.KindTime:
		sent.Time = ptr(v.Time())
	case slog.KindFloat64:
		if f := v.Float64(); math.IsNaN(f) || math.IsInf(f, 0) {
			sent.String = ptr(v.String())
		} else {
			sent.Float = &f
		}
	case slog.KindGroup:
		var members []attr
		for _, m := range v.Group() {
			members = appendAttr(members, m)
		}
		if a.Key == "" {
			return append(list, members...)
		}
		if sent.Group = members; len(members) == 0 {
			return list
		}
	case slog.KindAny:
		sent.setAny(v.Any())
	default:
		sent.String = ptr(v.String())
	}
	if a.Equal(slog.Attr{}) {
		return list
	}
	return append(list, sent)
}

// setAny sets a value of any type: as text if it has one, otherwise as JSON.
func (a *attr) setAny(v any) {
	defer func() {
		if p := recover(); p != nil {
			a.String = ptr(fmt.Sprintf("a %T whose methods panic: %v", v, p))
		}
	}()
	switch v := v.(type) {
	case error:
		a.String = ptr(v.Error())
		return
	case fmt.Stringer:
		a.String = ptr(v.String())
		return
	}
	raw, err := json.Marshal(v)
	if err != nil {
		a.String = ptr(fmt.Sprintf("%+v", v))
		return
	}
	a.Any = raw
}

func ptr[T any](v T) *T { return &v }

// value returns the attribute that was sent.
func (a *attr) value() slog.Attr {
	var v slog.Value
	switch {
	case a.String != nil:
		v = slog.StringValue(*a.String)
	case a.Int != nil:
		v = slog.Int64Value(*a.Int)
	case a.Uint != nil:
		v = slog.Uint64Value(*a.Uint)
	case a.Float != nil:
		v = slog.Float64Value(*a.Float)
	case a.Bool != nil:
		v = slog.BoolValue(*a.Bool)
	case a.Duration != nil:
		v = slog.DurationValue(*a.Duration)
	case a.Time != nil:
		v = slog.TimeValue(*a.Time)
	case a.Group != nil:
		members := make([]slog.Attr, len(a.Group))
		for i := range a.Group {
			members[i] = a.Group[i].value()
		}
		v = slog.GroupValue(members...)
	case a.Any != nil:
		x, _ := jsontext.Parse(a.Any)
		v = slog.AnyValue(x)
	}
	return slog.Attr{Key: a.Key, Value: v}
}

// writeTo writes a record that was sent to a log.
func (r *record) writeTo(log *slog.Logger) {
	ctx, level := context.Background(), slog.Level(r.Level)
	if !log.Handler().Enabled(ctx, level) {
		return
	}
	rec := slog.NewRecord(r.Time, level, r.Message, 0)
	for i := range r.Attrs {
		rec.AddAttrs(r.Attrs[i].value())
	}
	_ = log.Handler().Handle(ctx, rec) // a logger ignores it too
}

// lowestLevel returns the lowest level of which a log takes records.
func lowestLevel(log *slog.Logger) int {
	for level := slog.LevelDebug - 4; level <= slog.LevelError+4; level++ {
		if log.Enabled(context.Background(), level) {
			return int(level)
		}
	}
	return math.MaxInt32
}
