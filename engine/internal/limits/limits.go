// Package limits keeps how many executions may run at once, which are settings of the
// store. The store observes them when an engine claims.
package limits

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
	"github.com/courierhq/courier/engine/internal/core"
	"github.com/courierhq/courier/internal/text"
	"github.com/courierhq/courier/internal/wakeup"
	"github.com/courierhq/courier/store"
)

// global is how people name the scope of all executions, which is empty in the store.
const global = "global"

// A Service is the limits in the store of one engine. Its methods may be called by several
// goroutines.
type Service struct {
	catalog store.Catalog
	changed func(context.Context, core.Change)
	wake    chan<- struct{}
}

// New returns the service of an engine. It calls changed after a limit was changed, and sends
// to wake, which has room for one value: there may be something to claim.
func New(c store.Catalog, changed func(context.Context, core.Change), wake chan<- struct{}) *Service {
	return &Service{c, changed, wake}
}

// Set sets the limit of a scope; 0 means any number.
func (v *Service) Set(ctx context.Context, scope string, n int, by courier.By) error {
	setting, err := settingOf(scope, by)
	if err == nil && (n < 0 || n > math.MaxInt32) {
		err = courier.Errorf(courier.ErrInvalid, "%d is no number of executions; 0 means no limit", n)
	}
	var was store.Setting
	if err == nil {
		was, err = v.setting(ctx, setting)
	}
	if err == nil && was.Value == strconv.Itoa(n) {
		return nil // and the journal has it already
	}
	if err == nil {
		err = v.catalog.Set(ctx, setting, strconv.Itoa(n))
	}
	if err != nil {
		return fmt.Errorf("set limit %q: %w", scope, err)
	}
	v.record(ctx, core.Change{Name: scope, Verb: "set", By: by, Now: json.RawMessage(strconv.Itoa(n)), More: []slog.Attr{slog.Int("limit", n)}})
	return nil
}

// Remove takes back a limit that was set. If none was, the error matches
// [courier.ErrNotFound].
func (v *Service) Remove(ctx context.Context, scope string, by courier.By) error {
	setting, err := settingOf(scope, by)
	if err != nil {
		return fmt.Errorf("remove limit %q: %w", scope, err)
	}
	was, err := v.setting(ctx, setting)
	if err == nil && was.Name == "" {
		err = courier.Errorf(courier.ErrNotFound, "none was set")
	}
	if err == nil {
		err = v.catalog.Set(ctx, setting, "")
	}
	if err != nil {
		return fmt.Errorf("remove limit %q: %w", scope, err)
	}
	v.record(ctx, core.Change{Name: scope, Verb: "removed", By: by})
	return nil
}

// setting returns a setting as it is; the zero value if it is not set.
func (v *Service) setting(ctx context.Context, name string) (store.Setting, error) {
	list, err := v.catalog.Settings(ctx, store.SettingFilter{Prefix: name, Limit: 1})
	if err != nil || len(list) == 0 || list[0].Name != name {
		return store.Setting{}, err
	}
	return list[0], nil
}

// settingOf returns the setting of a scope, and what is wrong with the scope and with
// who wants to change it.
func settingOf(scope string, by courier.By) (string, error) {
	if scope == global {
		scope = ""
	}
	if err := text.Check(text.By(by, "scope", scope)); err != nil {
		return "", err
	}
	if scope != "" && !isScope(scope) {
		return "", courier.Errorf(courier.ErrInvalid, `the scope must be "global", "job:NAME", "key:KEY" or "key:PREFIX*"`)
	}
	return store.LimitSetting(scope), nil
}

func isScope(s string) bool {
	kind, name, ok := strings.Cut(s, ":")
	return ok && name != "" && (kind == "job" || kind == "key")
}

func (v *Service) record(ctx context.Context, c core.Change) {
	c.Kind = "limit"
	v.changed(ctx, c)
	wakeup.Send(v.wake)
}

// A Limit is how many executions of a scope may run at once; 0 means any number.
type Limit struct {
	Scope string
	Limit int
}

// A Filter selects the limits whose scopes come after one, and how many; 0 means 1000.
type Filter struct {
	After string
	Limit int
}

// List returns a page of the limits that were set, in byte order of their scopes.
func (v *Service) List(ctx context.Context, f Filter) ([]Limit, error) {
	all := store.SettingFilter{Prefix: store.LimitSetting(""), Limit: f.Limit}
	switch f.After {
	case "":
	case global:
		all.After = store.LimitSetting("")
	default:
		all.After = store.LimitSetting(f.After)
	}
	settings, err := v.catalog.Settings(ctx, all)
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
		list = append(list, Limit{cmp.Or(scope, global), n})
	}
	return list, nil
}
