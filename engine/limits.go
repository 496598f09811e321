package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/text"
	"github.com/courierhq/courier/internal/wakeup"
	"github.com/courierhq/courier/store"
)

// Limits say how many executions may run at once. They hold for all engines on a
// store.
type Limits struct{ e *Engine }

// Limits returns the handle for the limits in the engine's store.
func (e *Engine) Limits() Limits { return Limits{e} }

// globalLimit is how people name the scope of all executions, which is empty in the store.
const globalLimit = "global"

// Set sets how many executions of a scope may run at once. The scope "global" or "" covers
// all executions; "job:NAME" those of one job; "key:KEY" those that share a limit key; and
// "key:PREFIX*", for each key that begins with PREFIX, those that share that key, unless
// the key or a longer prefix has a limit of its own. 0 means any number. The limit holds
// for all engines on the store, from the next claim on. A lower limit stops no running
// execution. Until a limit is set, the global limit is 5, that of a job is the one in its
// definition, and keys have none.
func (h Limits) Set(ctx context.Context, scope string, n int, by courier.By) error {
	setting, err := limitSetting(scope, by)
	if err == nil && (n < 0 || n > math.MaxInt32) {
		err = courier.Errorf(courier.ErrInvalid, "%d is not a number of executions; 0 means no limit", n)
	}
	var was store.Setting
	if err == nil {
		was, err = h.setting(ctx, setting)
	}
	if err == nil && was.Value == strconv.Itoa(n) {
		return nil // and the journal has it already
	}
	if err == nil {
		err = h.e.store.Set(ctx, setting, strconv.Itoa(n))
	}
	if err != nil {
		return fmt.Errorf("set limit %q: %w", scope, err)
	}
	h.changed(ctx, by, store.Action{Name: scope, Verb: "set", Now: json.RawMessage(strconv.Itoa(n))}, slog.Int("limit", n))
	return nil
}

// Remove removes a limit that was set, so that the default applies again; see Set. If
// none was set for the scope, the error matches [courier.ErrNotFound].
func (h Limits) Remove(ctx context.Context, scope string, by courier.By) error {
	setting, err := limitSetting(scope, by)
	if err != nil {
		return fmt.Errorf("remove limit %q: %w", scope, err)
	}
	was, err := h.setting(ctx, setting)
	if err == nil && was.Name == "" {
		err = courier.Errorf(courier.ErrNotFound, "none was set")
	}
	if err == nil {
		err = h.e.store.Set(ctx, setting, "")
	}
	if err != nil {
		return fmt.Errorf("remove limit %q: %w", scope, err)
	}
	h.changed(ctx, by, store.Action{Name: scope, Verb: "removed"})
	return nil
}

// setting returns a setting as it is; the zero value if it is not set.
func (h Limits) setting(ctx context.Context, name string) (store.Setting, error) {
	list, err := h.e.store.Settings(ctx, store.SettingFilter{Prefix: name, Limit: 1})
	if err != nil || len(list) == 0 || list[0].Name != name {
		return store.Setting{}, err
	}
	return list[0], nil
}

// limitSetting returns the setting of a scope, and what is wrong with the scope and with
// who wants to change it.
func limitSetting(scope string, by courier.By) (string, error) {
	if scope == globalLimit {
		scope = ""
	}
	if err := text.Check(text.By(by, "scope", scope)); err != nil {
		return "", err
	}
	if scope != "" && !isLimitScope(scope) {
		return "", courier.Errorf(courier.ErrInvalid, `the scope must be "global", "job:NAME", "key:KEY" or "key:PREFIX*"`)
	}
	return store.LimitSetting(scope), nil
}

func isLimitScope(s string) bool {
	kind, name, ok := strings.Cut(s, ":")
	return ok && name != "" && (kind == "job" || kind == "key")
}

// changed records a change of a limit, and has the engine claim: there may be room now.
func (h Limits) changed(ctx context.Context, by courier.By, a store.Action, more ...slog.Attr) {
	a.Kind = "limit"
	access(h).Changed(ctx, by, a, more...)
	wakeup.Send(h.e.wake)
}

// A Limit is how many executions of a scope may run at once.
type Limit struct {
	Scope string // "global", "job:NAME", "key:KEY" or "key:PREFIX*"
	Limit int    // 0 means any number
}

// A LimitFilter selects limits. The zero value selects the first 1000.
type LimitFilter struct {
	After string // only limits whose scopes come after it
	Limit int    // how many; 0 means 1000
}

// List returns a page of the limits that were set, in byte order of their scopes.
func (h Limits) List(ctx context.Context, f LimitFilter) ([]Limit, error) {
	all := store.SettingFilter{Prefix: store.LimitSetting(""), Limit: f.Limit}
	switch f.After {
	case "":
	case globalLimit:
		all.After = store.LimitSetting("")
	default:
		all.After = store.LimitSetting(f.After)
	}
	settings, err := h.e.store.Settings(ctx, all)
	if err != nil {
		return nil, fmt.Errorf("limits: %w", err)
	}
	var list []Limit
	for _, x := range settings {
		scope, ok := store.LimitScope(x.Name)
		if !ok {
			continue
		}
		n, err := strconv.Atoi(x.Value)
		if err != nil {
			return nil, fmt.Errorf("limits: setting %q: %w", x.Name, err)
		}
		list = append(list, Limit{cmp.Or(scope, globalLimit), n})
	}
	return list, nil
}
