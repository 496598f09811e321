package probe

import (
	"context"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/expectation"
	"github.com/courierhq/courier/monitor"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store"
)

// A probed store is another one, each call of which the probe is told. It has the methods
// of all roles, so whoever asks for one has to look at the store behind it; see [Behind].
type probed struct {
	store.Store
	told *Calls
}

func (v *probed) Save(ctx context.Context, d store.Definition) (got store.Definition, err error) {
	defer v.told.Store("Save", time.Now(), &err)
	return v.Store.Save(ctx, d)
}

func (v *probed) Load(ctx context.Context, kind store.Kind, name string, version int) (got store.Definition, err error) {
	defer v.told.Store("Load", time.Now(), &err)
	return v.Store.Load(ctx, kind, name, version)
}

func (v *probed) List(ctx context.Context, f store.DefinitionFilter) (got []store.Definition, err error) {
	defer v.told.Store("List", time.Now(), &err)
	return v.Store.List(ctx, f)
}

func (v *probed) Settings(ctx context.Context, f store.SettingFilter) (got []store.Setting, err error) {
	defer v.told.Store("Settings", time.Now(), &err)
	return v.Store.Settings(ctx, f)
}

func (v *probed) Set(ctx context.Context, key, value string) (err error) {
	defer v.told.Store("Set", time.Now(), &err)
	return v.Store.Set(ctx, key, value)
}

func (v *probed) Enqueue(ctx context.Context, list []store.NewExecution) (got []store.Enqueued, err error) {
	defer v.told.Store("Enqueue", time.Now(), &err)
	return v.Store.Enqueue(ctx, list)
}

func (v *probed) Claim(ctx context.Context, r store.ClaimRequest) (got store.Claims, err error) {
	sent := time.Now()
	defer v.told.Store("Claim", sent, &err)
	if got, err = v.Store.Claim(ctx, r); err == nil {
		v.told.Claimed(len(got.List), sent)
	}
	return got, err
}

func (v *probed) Renew(ctx context.Context, r store.RenewRequest) (got []store.Renewed, err error) {
	defer v.told.Store("Renew", time.Now(), &err)
	return v.Store.Renew(ctx, r)
}

func (v *probed) Await(ctx context.Context, queues []string, since uint64) (err error) {
	defer v.told.Store("Await", time.Now(), &err)
	return v.Store.Await(ctx, queues, since)
}

func (v *probed) Apply(ctx context.Context, t store.Transition) (err error) {
	if v.told.measures() {
		defer v.told.Store("Apply", time.Now(), &err)
	}
	return v.Store.Apply(ctx, t)
}

func (v *probed) Request(ctx context.Context, r store.Request) (got courier.Execution, err error) {
	defer v.told.Store("Request", time.Now(), &err)
	return v.Store.Request(ctx, r)
}

func (v *probed) Execution(ctx context.Context, id courier.ExecutionID) (got courier.Execution, err error) {
	defer v.told.Store("Execution", time.Now(), &err)
	return v.Store.Execution(ctx, id)
}

func (v *probed) Executions(ctx context.Context, f store.Filter) (got []courier.Execution, err error) {
	defer v.told.Store("Executions", time.Now(), &err)
	return v.Store.Executions(ctx, f)
}

func (v *probed) Steps(ctx context.Context, f store.StepFilter) (got []courier.StepExecution, err error) {
	defer v.told.Store("Steps", time.Now(), &err)
	return v.Store.Steps(ctx, f)
}

func (v *probed) Latest(ctx context.Context, f store.LatestFilter) (got []courier.StepExecution, err error) {
	defer v.told.Store("Latest", time.Now(), &err)
	return v.Store.Latest(ctx, f)
}

func (v *probed) Audit(ctx context.Context, f store.AuditFilter) (got []courier.AuditEntry, err error) {
	defer v.told.Store("Audit", time.Now(), &err)
	return v.Store.Audit(ctx, f)
}

func (v *probed) StartChains(ctx context.Context, list []chain.NewExecution) (got []chain.Started, err error) {
	defer v.told.Store("StartChains", time.Now(), &err)
	return v.Store.(chain.Store).StartChains(ctx, list)
}

func (v *probed) RequestChain(ctx context.Context, r chain.Request) (x chain.Execution, asked []courier.Execution, err error) {
	defer v.told.Store("RequestChain", time.Now(), &err)
	return v.Store.(chain.Store).RequestChain(ctx, r)
}

func (v *probed) ChainExecution(ctx context.Context, id courier.ChainExecutionID) (got chain.Execution, err error) {
	defer v.told.Store("ChainExecution", time.Now(), &err)
	return v.Store.(chain.Store).ChainExecution(ctx, id)
}

func (v *probed) ChainExecutions(ctx context.Context, f chain.Filter) (got []chain.Execution, err error) {
	defer v.told.Store("ChainExecutions", time.Now(), &err)
	return v.Store.(chain.Store).ChainExecutions(ctx, f)
}

func (v *probed) Overdue(ctx context.Context, limit int) (got store.Overdue, err error) {
	defer v.told.Store("Overdue", time.Now(), &err)
	return v.Store.(store.Deadlines).Overdue(ctx, limit)
}

func (v *probed) Note(ctx context.Context, a store.Action) (got store.Action, err error) {
	defer v.told.Store("Note", time.Now(), &err)
	return v.Store.(store.Journal).Note(ctx, a)
}

func (v *probed) Actions(ctx context.Context, f store.ActionFilter) (got []store.Action, err error) {
	defer v.told.Store("Actions", time.Now(), &err)
	return v.Store.(store.Journal).Actions(ctx, f)
}

func (v *probed) PutMonitor(ctx context.Context, p monitor.Put) (got monitor.Record, err error) {
	defer v.told.Store("PutMonitor", time.Now(), &err)
	return v.Store.(monitor.Store).PutMonitor(ctx, p)
}

func (v *probed) RemoveMonitor(ctx context.Context, name string) (err error) {
	defer v.told.Store("RemoveMonitor", time.Now(), &err)
	return v.Store.(monitor.Store).RemoveMonitor(ctx, name)
}

func (v *probed) Monitors(ctx context.Context, f monitor.Filter) (got []monitor.Record, err error) {
	defer v.told.Store("Monitors", time.Now(), &err)
	return v.Store.(monitor.Store).Monitors(ctx, f)
}

func (v *probed) DueMonitors(ctx context.Context, r monitor.DueRequest) (got monitor.DueList, err error) {
	defer v.told.Store("DueMonitors", time.Now(), &err)
	return v.Store.(monitor.Store).DueMonitors(ctx, r)
}

func (v *probed) RecordPoll(ctx context.Context, r monitor.PollResult) (got monitor.Recorded, err error) {
	defer v.told.Store("RecordPoll", time.Now(), &err)
	return v.Store.(monitor.Store).RecordPoll(ctx, r)
}

func (v *probed) SeenFiles(ctx context.Context, f monitor.SeenFilter) (got []monitor.SeenFile, err error) {
	defer v.told.Store("SeenFiles", time.Now(), &err)
	return v.Store.(monitor.Store).SeenFiles(ctx, f)
}

func (v *probed) PutExpectation(ctx context.Context, p expectation.Put) (got expectation.Record, err error) {
	defer v.told.Store("PutExpectation", time.Now(), &err)
	return v.Store.(expectation.Store).PutExpectation(ctx, p)
}

func (v *probed) RemoveExpectation(ctx context.Context, name string) (err error) {
	defer v.told.Store("RemoveExpectation", time.Now(), &err)
	return v.Store.(expectation.Store).RemoveExpectation(ctx, name)
}

func (v *probed) Expectations(ctx context.Context, f expectation.Filter) (got expectation.List, err error) {
	defer v.told.Store("Expectations", time.Now(), &err)
	return v.Store.(expectation.Store).Expectations(ctx, f)
}

func (v *probed) DueExpectations(ctx context.Context, r expectation.DueRequest) (got expectation.DueList, err error) {
	defer v.told.Store("DueExpectations", time.Now(), &err)
	return v.Store.(expectation.Store).DueExpectations(ctx, r)
}

func (v *probed) RecordLooks(ctx context.Context, list []expectation.Look) (got []bool, err error) {
	defer v.told.Store("RecordLooks", time.Now(), &err)
	return v.Store.(expectation.Store).RecordLooks(ctx, list)
}

func (v *probed) Arrivals(ctx context.Context, f expectation.ArrivalFilter) (got []expectation.Kept, err error) {
	defer v.told.Store("Arrivals", time.Now(), &err)
	return v.Store.(expectation.Store).Arrivals(ctx, f)
}

func (v *probed) CountArrivals(ctx context.Context, from, to string) (got map[expectation.State]int, err error) {
	defer v.told.Store("CountArrivals", time.Now(), &err)
	return v.Store.(expectation.Store).CountArrivals(ctx, from, to)
}

func (v *probed) PutSubscription(ctx context.Context, s notify.Record) (err error) {
	defer v.told.Store("PutSubscription", time.Now(), &err)
	return v.Store.(notify.Store).PutSubscription(ctx, s)
}

func (v *probed) RemoveSubscription(ctx context.Context, name string) (err error) {
	defer v.told.Store("RemoveSubscription", time.Now(), &err)
	return v.Store.(notify.Store).RemoveSubscription(ctx, name)
}

func (v *probed) Subscriptions(ctx context.Context, f notify.Filter) (got []notify.Record, err error) {
	defer v.told.Store("Subscriptions", time.Now(), &err)
	return v.Store.(notify.Store).Subscriptions(ctx, f)
}

func (v *probed) DueDeliveries(ctx context.Context, r notify.DueRequest) (got notify.DueList, err error) {
	defer v.told.Store("DueDeliveries", time.Now(), &err)
	return v.Store.(notify.Store).DueDeliveries(ctx, r)
}

func (v *probed) RecordDeliveries(ctx context.Context, list []notify.Outcome) (err error) {
	defer v.told.Store("RecordDeliveries", time.Now(), &err)
	return v.Store.(notify.Store).RecordDeliveries(ctx, list)
}

func (v *probed) Deliveries(ctx context.Context, f notify.DeliveryFilter) (got []notify.Delivery, err error) {
	defer v.told.Store("Deliveries", time.Now(), &err)
	return v.Store.(notify.Store).Deliveries(ctx, f)
}

func (v *probed) ReplayDeliveries(ctx context.Context, subscription string, events []string) (got int, err error) {
	defer v.told.Store("ReplayDeliveries", time.Now(), &err)
	return v.Store.(notify.Store).ReplayDeliveries(ctx, subscription, events)
}

func (v *probed) Census(ctx context.Context, most int) (got store.Census, err error) {
	defer v.told.Store("Census", time.Now(), &err)
	return v.Store.(store.Overview).Census(ctx, most)
}

func (v *probed) Circumstances(ctx context.Context, id courier.ExecutionID, age time.Duration) (got store.Circumstances, err error) {
	defer v.told.Store("Circumstances", time.Now(), &err)
	return v.Store.(store.Overview).Circumstances(ctx, id, age)
}

func (v *probed) Transfers(ctx context.Context, f store.TransferFilter) (got []store.Transfer, err error) {
	defer v.told.Store("Transfers", time.Now(), &err)
	return v.Store.(store.Overview).Transfers(ctx, f)
}

func (v *probed) Incidents(ctx context.Context, most int) (got store.Incidents, err error) {
	defer v.told.Store("Incidents", time.Now(), &err)
	return v.Store.(store.Overview).Incidents(ctx, most)
}

func (v *probed) Stats(ctx context.Context, most int) (got store.Stats, err error) {
	defer v.told.Store("Stats", time.Now(), &err)
	return v.Store.(store.Statistics).Stats(ctx, most)
}

func (v *probed) CountHours(ctx context.Context, age time.Duration) (err error) {
	defer v.told.Store("CountHours", time.Now(), &err)
	return v.Store.(store.Figures).CountHours(ctx, age)
}

func (v *probed) Hours(ctx context.Context, most int) (got []store.HourFigures, err error) {
	defer v.told.Store("Hours", time.Now(), &err)
	return v.Store.(store.Figures).Hours(ctx, most)
}

func (v *probed) Acknowledge(ctx context.Context, a store.Acknowledgement) (got store.Acknowledgement, err error) {
	defer v.told.Store("Acknowledge", time.Now(), &err)
	return v.Store.(store.Acknowledgements).Acknowledge(ctx, a)
}

func (v *probed) Withdraw(ctx context.Context, key string) (err error) {
	defer v.told.Store("Withdraw", time.Now(), &err)
	return v.Store.(store.Acknowledgements).Withdraw(ctx, key)
}

func (v *probed) Acknowledgements(ctx context.Context) (got []store.Acknowledgement, err error) {
	defer v.told.Store("Acknowledgements", time.Now(), &err)
	return v.Store.(store.Acknowledgements).Acknowledgements(ctx)
}

func (v *probed) PutSchedule(ctx context.Context, s schedule.Record) (got schedule.Record, err error) {
	defer v.told.Store("PutSchedule", time.Now(), &err)
	return v.Store.(schedule.Store).PutSchedule(ctx, s)
}

func (v *probed) RemoveSchedule(ctx context.Context, name string) (err error) {
	defer v.told.Store("RemoveSchedule", time.Now(), &err)
	return v.Store.(schedule.Store).RemoveSchedule(ctx, name)
}

func (v *probed) Schedules(ctx context.Context, f schedule.Filter) (got schedule.List, err error) {
	defer v.told.Store("Schedules", time.Now(), &err)
	return v.Store.(schedule.Store).Schedules(ctx, f)
}

func (v *probed) DueSchedules(ctx context.Context, most int, lease time.Duration) (got schedule.DueList, err error) {
	defer v.told.Store("DueSchedules", time.Now(), &err)
	return v.Store.(schedule.Store).DueSchedules(ctx, most, lease)
}

func (v *probed) FireSchedules(ctx context.Context, list []schedule.Firing) (got []schedule.Fired, err error) {
	defer v.told.Store("FireSchedules", time.Now(), &err)
	return v.Store.(schedule.Store).FireSchedules(ctx, list)
}

func (v *probed) AwaitSchedules(ctx context.Context, since uint64) (err error) {
	defer v.told.Store("AwaitSchedules", time.Now(), &err)
	return v.Store.(schedule.Store).AwaitSchedules(ctx, since)
}

func (v *probed) Find(ctx context.Context, f store.TrailFilter) (got []store.TrailEntry, err error) {
	defer v.told.Store("Find", time.Now(), &err)
	return v.Store.(store.Trail).Find(ctx, f)
}

func (v *probed) Reports(ctx context.Context, entries []store.TrailEntry) (got []courier.StepExecution, err error) {
	defer v.told.Store("Reports", time.Now(), &err)
	return v.Store.(store.Trail).Reports(ctx, entries)
}

func (v *probed) Drain(ctx context.Context, worker string) (err error) {
	defer v.told.Store("Drain", time.Now(), &err)
	return v.Store.(store.Workers).Drain(ctx, worker)
}

func (v *probed) Workers(ctx context.Context, age time.Duration) (got []store.Worker, err error) {
	defer v.told.Store("Workers", time.Now(), &err)
	return v.Store.(store.Workers).Workers(ctx, age)
}

func (v *probed) Stranded(ctx context.Context, age time.Duration) (got []store.Stranded, err error) {
	defer v.told.Store("Stranded", time.Now(), &err)
	return v.Store.(store.Workers).Stranded(ctx, age)
}

func (v *probed) StoreID(ctx context.Context) (got string, err error) {
	defer v.told.Store("StoreID", time.Now(), &err)
	return v.Store.(store.Identity).StoreID(ctx)
}
