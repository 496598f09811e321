package failures

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/schedule"
)

// machines are the devices that the steps use. The scale hangs on its first use, and the printer of
// worker-2 waits until worker-2 is switched off.
type machines struct {
	weighed  atomic.Int64
	printed  atomic.Int64
	released chan struct{} // closed when nothing hangs any more
}

func newMachines() *machines { return &machines{released: make(chan struct{})} }

// release ends the steps that hang.
func (m *machines) release() { close(m.released) }

func (m *machines) register(r *courier.Registry) {
	courier.RegisterFunc(r, "scale.weigh", m.weigh, &courier.TypeOptions{Doc: "Weighs what is on the scale.", Timeout: new(time.Duration)})
	courier.RegisterFunc(r, "printer.print", m.print, &courier.TypeOptions{Doc: "Prints a file.", Timeout: new(time.Duration)})
	courier.RegisterFunc(r, "warehouse.count", count, &courier.TypeOptions{Doc: "Counts what is in the warehouse.", Timeout: new(time.Duration)})
	courier.RegisterFunc(r, "warehouse.list", list, &courier.TypeOptions{Doc: "Makes a list of the warehouse."})
}

type weighed struct {
	Kilograms int `json:"kilograms"`
}

// weigh does not return when its context ends, like a driver that waits for its device.
func (m *machines) weigh(_ context.Context, job *courier.Context, _ struct{}) (weighed, error) {
	job.Log().Info("waiting for the scale")
	if m.weighed.Add(1) == 1 {
		<-m.released
	}
	return weighed{18_420}, nil
}

type printConfig struct {
	File string `json:"file" courier:"required,path" doc:"what is printed"`
}

func (m *machines) print(ctx context.Context, job *courier.Context, cfg printConfig) (struct{}, error) {
	if _, err := job.Files().Stat(cfg.File); err != nil {
		return struct{}{}, err
	}
	if m.printed.Add(1) == 1 {
		<-ctx.Done()
		return struct{}{}, context.Cause(ctx)
	}
	return struct{}{}, nil
}

type countConfig struct {
	Shelves int `json:"shelves" min:"1" doc:"how many shelves are counted, one in five minutes"`
}

func count(ctx context.Context, job *courier.Context, cfg countConfig) (struct{}, error) {
	for i := range cfg.Shelves {
		job.Progress(int64(i), int64(cfg.Shelves), fmt.Sprint("shelf ", i+1))
		select {
		case <-time.After(5 * time.Minute):
		case <-ctx.Done():
			return struct{}{}, context.Cause(ctx)
		}
	}
	return struct{}{}, nil
}

type listConfig struct {
	Of string `json:"of" courier:"required" doc:"what is listed"`
}

type listOutput struct {
	Lines int `json:"lines"`
}

func list(_ context.Context, _ *courier.Context, cfg listConfig) (listOutput, error) {
	return listOutput{len(cfg.Of)}, nil
}

// jobs returns the definitions, with their mistakes.
func (w *World) jobs() []courier.Job {
	fetch := func(connection, path string) courier.StepSpec {
		return courier.StepSpec{ID: "fetch", Type: "sftp.download", Config: map[string]any{"connection_id": connection, "remote_path": path}}
	}
	make := func(of string) courier.StepSpec {
		return courier.StepSpec{ID: "make", Type: "warehouse.list", Config: map[string]any{"of": of}}
	}
	return []courier.Job{
		{Name: "orders-acme", Steps: []courier.StepSpec{fetch("acme", "/acme/orders.csv"), make("orders")}},
		{Name: "orders-globex", Steps: []courier.StepSpec{fetch("globex", "/globex/orders.csv"), make("orders")}},
		{Name: "prices-hooli", Steps: []courier.StepSpec{
			{ID: "list", Type: "sftp.list", Config: map[string]any{"connection_id": "hooli", "remote_path": "/hooli", "pattern": "*.zip"}},
			{Type: "flow.foreach", Config: map[string]any{"source": "context:list.file_list"}},
			{ID: "fetch", Type: "sftp.download", Config: map[string]any{"connection_id": "hooli", "remote_path": "context:loop.current_item.path"}},
			{ID: "unpack", Type: "file.unzip", Config: map[string]any{"archive_path": "context:fetch.downloaded_file"}},
			{Type: "flow.end"},
			make("prices"),
		}},
		{Name: "statement-initech", Steps: []courier.StepSpec{
			{ID: "get", Type: "http.request", Config: map[string]any{"url": w.partners.url + "/initech/statement", "bearer_token": "secret:initech/tokn"}},
			make("statement"),
		}},
		{Name: "delivery-notes", Steps: []courier.StepSpec{
			fetch("depot", "/depot/notes.txt"), {ID: "print", Type: "printer.print", Config: map[string]any{"file": "context:fetch.downloaded_file"}},
		}},
		{Name: "weighing", MaxDuration: time.Minute, Steps: []courier.StepSpec{{ID: "weigh", Type: "scale.weigh"}, make("weights")}},
		{Name: "stocktaking", LimitKeys: []string{"warehouse"}, Steps: []courier.StepSpec{
			{ID: "count", Name: "Count all shelves; it may be stopped and begun anew at any time", Type: "warehouse.count", Config: map[string]any{"shelves": 2400}},
		}},
		{Name: "price-list", LimitKeys: []string{"warehouse"}, Steps: []courier.StepSpec{make("price list")}},
		{Name: "labels", Queue: "nihgt", Steps: []courier.StepSpec{make("labels")}},
		{Name: "closing", Queue: "night", Steps: []courier.StepSpec{make("totals")}},
	}
}

// define saves the definitions.
func (w *World) define(ctx context.Context) error {
	by := courier.By{Actor: "ben", Reason: "set up"}
	for _, j := range w.jobs() {
		if _, err := w.Engine.Jobs().Define(ctx, j, &courier.DefineOptions{By: by}); err != nil {
			return err
		}
	}
	if err := w.Engine.Limits().Set(ctx, "global", 16, by); err != nil {
		return err
	}
	if err := w.Engine.Limits().Set(ctx, "key:warehouse", 1, by); err != nil {
		return err
	}
	if _, err := w.Engine.Schedules().Set(ctx, schedule.Schedule{Name: "closing", Job: "closing", Cron: "0 30 2 * * ?", Zone: "Europe/Berlin"}, by); err != nil {
		return err
	}
	_, err := w.Engine.Subscriptions().Set(ctx, notify.Subscription{
		Name: "accounting", Kind: notify.KindWebhook, Events: []courier.EventType{courier.EventJobFailed},
		Webhook: &notify.WebhookTarget{URL: w.partners.url + "/hooks", Secrets: []string{"secret:hook"}},
	}, by)
	return err
}
