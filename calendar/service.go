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

// Options are what a [Service] uses of the engine that makes it. All must be set.
type Options struct {
	Catalog store.Catalog
	// Users returns what goes by a calendar, each as a phrase such as `schedule "nightly"`.
	Users func(ctx context.Context, calendar string) ([]string, error)
	// Follow makes what goes by a calendar follow its latest version from now on. Was are the
	// days that held before; nil if there was no such calendar.
	Follow func(ctx context.Context, calendar string, was *Days, by courier.By) error
	// Changed is called after somebody has changed a calendar. The entry is for the
	// journal, without the actor; the attributes are for the log.
	Changed func(ctx context.Context, by courier.By, a store.Action, more ...slog.Attr)
}

// A Service is the calendars of one store, each kept by version under its name. Its methods
// may be called by several goroutines.
type Service struct{ opt Options }

// NewService returns the service of an engine. It starts nothing.
func NewService(opt Options) *Service { return &Service{opt} }

// Set checks a calendar and saves it as a new version of its name. If it equals the latest
// version, nothing is saved: a program may set its calendars whenever it starts. Schedules and
// monitors that go by the calendar follow it from their next tick or poll on. If Set fails
// after the version was saved, another Set of the same calendar makes them follow it. If the
// calendar is not sound, the error is an *[Error], which lists everything that is wrong.
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

// checked returns what is kept of a calendar, and what is wrong with it.
func (v *Service) checked(c *Calendar) (json.RawMessage, []courier.Problem) {
	problems := c.Check()
	body, err := jsontext.Append(nil, c.Definition())
	if err != nil {
		problems = append(problems, courier.Problem{Step: -1, Message: err.Error()})
	}
	return body, problems
}

// plain returns the body of a version; nil if it is none, or removes the calendar.
func plain(d *store.Definition) json.RawMessage {
	if d.Removed() {
		return nil
	}
	return d.Body
}

// latest returns the latest version of a name, the zero value if there is none.
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

// Check returns what is wrong with a calendar that is to be set. It saves nothing.
func (v *Service) Check(c Calendar) []courier.Problem {
	_, problems := v.checked(&c)
	return problems
}

// Compare returns what is saved under the name of a calendar, nil if nothing is, and what Set
// would save, as JSON; same says that Set would save nothing. It checks nothing else.
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

// unknown is the error of a calendar that does not exist.
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

// List returns a page of calendars in their latest versions, in byte order of their names. The
// kind in the filter does not count.
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

// Versions returns a page of the versions of a calendar, the newest first, without those that
// removed it. The error of a calendar that never was matches [courier.ErrNotFound].
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

// Users returns what goes by a calendar, each as a phrase such as `schedule "nightly"`.
func (v *Service) Users(ctx context.Context, name string) ([]string, error) {
	return v.opt.Users(ctx, name)
}

// InUse returns the error of removing a calendar that is in use, or nil if it is not. It matches
// [courier.ErrConflict] and names the first of the users.
func InUse(name string, users []string) error {
	return store.ErrInUse(store.Calendar, name, users, "have them go by another one first")
}

// Remove removes a calendar; its versions are kept. If schedules or monitors go by it, nothing
// is removed, and the error matches [courier.ErrConflict] and names them. One that is set to
// go by the calendar at the same moment says that it can't find it.
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
