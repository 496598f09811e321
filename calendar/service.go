package calendar

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/internal/nearest"
	"github.com/courierhq/courier/internal/text"
	"github.com/courierhq/courier/store"
)

// Options are the parts of the engine that a [Service] uses. All must be set.
type Options struct {
	Catalog store.Catalog
	// Users returns the users of a calendar, each as a phrase such as `schedule "nightly"`.
	Users func(ctx context.Context, calendar string) ([]string, error)
	// Follow applies the latest version of a calendar to its users from now on. Was has the days
	// of the calendar before the change; nil if there was no such calendar.
	Follow func(ctx context.Context, calendar string, was *Days, by courier.By) error
	// Changed is called after somebody has changed a calendar. The entry is for the
	// journal, without the actor; the attributes are for the log.
	Changed func(ctx context.Context, by courier.By, a store.Action, more ...slog.Attr)
}

// A Service manages the calendars of one store, each kept by version under its name. Its methods
// may be called by several goroutines.
type Service struct{ opt Options }

// NewService returns the service of an engine. It starts nothing.
func NewService(opt Options) *Service { return &Service{opt} }

// Set checks a calendar and saves it as a new version of its name. If it equals the latest
// version, nothing is saved, so a program may set its calendars at each start. Schedules and
// monitors that use the calendar follow it from their next tick or poll on. If Set fails after
// the version was saved, another Set of the same calendar makes them follow it. If the calendar
// is invalid, the error is an *[Error], which lists all problems.
func (v *Service) Set(ctx context.Context, c Calendar, by courier.By) (Calendar, error) {
	fail := func(err error) (Calendar, error) { return Calendar{}, fmt.Errorf("set calendar %q: %w", c.Name, err) }
	if err := text.Check(text.By(by)); err != nil {
		return fail(err)
	}
	body, problems := v.checked(&c)
	if len(problems) > 0 {
		return Calendar{}, &Error{Calendar: c.Name, Problems: problems}
	}
	was, err := v.latest(ctx, c.Name)
	if err != nil {
		return fail(err)
	}
	d, err := v.opt.Catalog.Save(ctx, store.Definition{Kind: store.Calendar, Name: c.Name, Body: body, By: by.Actor})
	if err != nil {
		return fail(err)
	}
	if d.Version != was.Version {
		v.opt.Changed(ctx, by, store.Action{Kind: "calendar", Name: c.Name, Verb: "set", Was: plain(&was), Now: body}, slog.Int("version", d.Version))
	}
	var before *Days
	if plain(&was) != nil {
		if old, err := read(&was); err == nil {
			before, _ = New(old)
		}
	}
	if err := v.opt.Follow(ctx, c.Name, before, by); err != nil {
		return fail(err)
	}
	return read(&d)
}

// checked returns the body of a calendar that the store keeps, and the problems of the calendar.
func (v *Service) checked(c *Calendar) (json.RawMessage, []courier.Problem) {
	problems := c.Check()
	body, err := jsontext.Append(nil, c.Definition())
	if err != nil {
		problems = append(problems, courier.Problem{Step: -1, Message: err.Error()})
	}
	return body, problems
}

// plain returns the body of a version; nil if there is no version, or if it removes the calendar.
func plain(d *store.Definition) json.RawMessage {
	if d.Removed() {
		return nil
	}
	return d.Body
}

// latest returns the latest version of a name; the zero value if there is none.
func (v *Service) latest(ctx context.Context, name string) (store.Definition, error) {
	d, err := v.opt.Catalog.Load(ctx, store.Calendar, name, 0)
	if errors.Is(err, courier.ErrNotFound) {
		return store.Definition{}, nil
	}
	return d, err
}

// read returns the calendar of a version.
func read(d *store.Definition) (Calendar, error) {
	var c Calendar
	if err := json.Unmarshal(d.Body, &c); err != nil {
		return c, fmt.Errorf("calendar %q version %d can't be read: %w", d.Name, d.Version, err)
	}
	c.Version, c.SavedBy, c.SavedAt = d.Version, d.By, d.SavedAt
	return c, nil
}

// Check returns the problems of a calendar that is to be set. It saves nothing.
func (v *Service) Check(c Calendar) []courier.Problem {
	_, problems := v.checked(&c)
	return problems
}

// Compare returns, as JSON, the calendar that is saved under the name, nil if there is none, and
// the calendar that Set would save. Same reports whether Set would save nothing. Compare checks
// nothing else.
func (v *Service) Compare(ctx context.Context, c Calendar) (was, now json.RawMessage, same bool, err error) {
	d, err := v.latest(ctx, c.Name)
	if err != nil {
		return nil, nil, false, fmt.Errorf("calendar: %w", err)
	}
	if now, err = jsontext.Append(nil, c.Definition()); err != nil {
		return nil, nil, false, err
	}
	was = plain(&d)
	return was, now, bytes.Equal(was, now), nil
}

// Get returns a version of a calendar; version 0 means the latest. If there is no such
// calendar, or it was removed, the error matches [courier.ErrNotFound] and suggests the
// nearest name.
func (v *Service) Get(ctx context.Context, name string, version int) (Calendar, error) {
	d, err := v.opt.Catalog.Load(ctx, store.Calendar, name, version)
	switch {
	case errors.Is(err, courier.ErrNotFound) && version == 0:
		return Calendar{}, v.unknown(ctx, name)
	case err != nil:
		return Calendar{}, fmt.Errorf("calendar %q: %w", name, err)
	case plain(&d) == nil && version != 0:
		return Calendar{}, courier.Errorf(courier.ErrNotFound, "version %d of calendar %q is its removal", version, name)
	case plain(&d) == nil:
		return Calendar{}, v.unknown(ctx, name)
	}
	return read(&d)
}

// unknown returns the error of a calendar that does not exist.
func (v *Service) unknown(ctx context.Context, name string) error {
	list, _ := v.List(ctx, store.DefinitionFilter{})
	names := make([]string, len(list))
	for i := range list {
		names[i] = list[i].Name
	}
	return courier.Errorf(courier.ErrNotFound, "there is no calendar %q; %s", name, nearest.DidYouMean(name, names))
}

// Days returns the days of the latest version of a calendar. If there is no such calendar, the
// error matches [courier.ErrNotFound] and suggests the nearest name.
func (v *Service) Days(ctx context.Context, name string) (*Days, error) {
	c, err := v.Get(ctx, name, 0)
	if err != nil {
		return nil, err
	}
	return New(c)
}

// List returns a page of calendars in their latest versions, in byte order of their names. It
// ignores the kind in the filter.
func (v *Service) List(ctx context.Context, f store.DefinitionFilter) ([]Calendar, error) {
	f.Kind, f.Brief = store.Calendar, false
	got, err := v.opt.Catalog.List(ctx, f)
	if err != nil {
		return nil, fmt.Errorf("calendars: %w", err)
	}
	var list []Calendar
	for i := range got {
		c, err := read(&got[i])
		if err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	return list, nil
}

// Versions returns a page of the versions of a calendar, the newest first. Versions that removed
// the calendar are left out. If the calendar never existed, the error matches
// [courier.ErrNotFound].
func (v *Service) Versions(ctx context.Context, name string, f store.VersionFilter) ([]Calendar, error) {
	const usual, most = 100, 1000
	limit := usual
	if f.Limit > 0 {
		limit = min(f.Limit, most)
	}
	d, err := v.latest(ctx, name)
	if err == nil && d.Version == 0 {
		err = v.unknown(ctx, name)
	}
	if err != nil {
		return nil, err
	}
	version := d.Version
	if f.Before > 0 {
		version = min(version, f.Before-1)
	}
	var list []Calendar
	for ; version > 0 && len(list) < limit; version-- {
		d, err := v.opt.Catalog.Load(ctx, store.Calendar, name, version)
		if errors.Is(err, courier.ErrNotFound) || err == nil && plain(&d) == nil {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("versions of calendar %q: %w", name, err)
		}
		c, err := read(&d)
		if err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	return list, nil
}

// Users returns the users of a calendar, each as a phrase such as `schedule "nightly"`.
func (v *Service) Users(ctx context.Context, name string) ([]string, error) {
	return v.opt.Users(ctx, name)
}

// InUse returns the error of removing a calendar that is in use; nil if it is not. The error
// matches [courier.ErrConflict] and names the first users.
func InUse(name string, users []string) error {
	return store.ErrInUse(store.Calendar, name, users, "have them go by another one first")
}

// Remove removes a calendar; its versions are kept. If schedules or monitors use it, nothing is
// removed, and the error matches [courier.ErrConflict] and names them. A schedule or monitor that
// is set at the same moment and names the calendar may report that the calendar does not exist.
func (v *Service) Remove(ctx context.Context, name string, by courier.By) error {
	fail := func(err error) error { return fmt.Errorf("remove calendar %q: %w", name, err) }
	if err := text.Check(text.By(by)); err != nil {
		return fail(err)
	}
	d, err := v.latest(ctx, name)
	if err == nil && plain(&d) == nil {
		err = v.unknown(ctx, name)
	}
	if err != nil {
		return fail(err)
	}
	users, err := v.opt.Users(ctx, name)
	if err == nil {
		err = InUse(name, users)
	}
	if err != nil {
		return fail(err)
	}
	if _, err := v.opt.Catalog.Save(ctx, store.Definition{Kind: store.Calendar, Name: name, Body: json.RawMessage(store.Removal), By: by.Actor, Base: &d.Version}); err != nil {
		return fail(err)
	}
	v.opt.Changed(ctx, by, store.Action{Kind: "calendar", Name: name, Verb: "removed", Was: d.Body})
	return nil
}
