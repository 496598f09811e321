package desk

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A Role is a set of rights. Roles are not ordered: a client may do what a viewer may not,
// and the other way round. The rights of several roles are combined by |, and taken away
// by &^.
type Role uint16

// The rights, each as the role that has it alone.
const (
	RightStart    Role = 1 << iota // start executions
	RightOverride                  // of what is started, set what the job otherwise says: see [Settings]
	RightDryRun                    // dry runs, with real connections
	RightOwn                       // see how the own executions stand and what they resulted in, ask why they wait, and cancel them
	RightSee                       // see everything but values
	RightValues                    // see values: parameters, outputs, messages of errors and logs
	RightOperate                   // act on executions; enable and disable
	RightEdit                      // change definitions
	RightAdmin                     // set limits, read the journal
)

// The roles.
const (
	None     Role = 0 // not even that the job is there
	Client        = RightStart | RightOwn
	Viewer        = RightSee | RightValues
	Starter       = Viewer | RightStart | RightOverride | RightDryRun
	Operator      = Starter | RightOperate
	Editor        = Operator | RightEdit
	Admin         = Editor | RightAdmin
)

// A RoleName is a role with its name, and what it is for.
type RoleName struct {
	Role Role
	Name string
	Does string
}

// Roles are the roles with their names. RightNames are the rights.
var (
	Roles = []RoleName{
		{None, "none", "nothing: the job is not there for it"},
		{Client, "client", "start the job, and see, explain and cancel its own executions"},
		{Viewer, "viewer", "see everything of the job"},
		{Starter, "starter", "what a viewer may, and start the job and try it by a dry run"},
		{Operator, "operator", "what a starter may, and act on executions: pause, resume, cancel, release, start again, many at once; enable and disable schedules, monitors and subscriptions"},
		{Editor, "editor", "what an operator may, and change jobs, chains, schedules, monitors and subscriptions"},
		{Admin, "admin", "what an editor may, set limits, and read the journal"},
	}
	RightNames = []RoleName{
		{RightStart, "start", "start executions"},
		{RightOverride, "override", "set what the job otherwise says of an execution that is started: " + strings.Join(Settings, ", ")},
		{RightDryRun, "dry-run", "try a job or a chain, with real connections"},
		{RightOwn, "own", "see how the executions stand that it has started, and what they resulted in, ask why they wait, and cancel them"},
		{RightSee, "see", "see everything but values"},
		{RightValues, "values", "see parameters, outputs, messages of errors and logs"},
		{RightOperate, "operate", "act on executions, and enable and disable what starts them"},
		{RightEdit, "edit", "change definitions"},
		{RightAdmin, "admin", "set limits, and read the journal"},
	}
)

// Has reports whether the role has all of some rights.
func (r Role) Has(rights Role) bool { return r&rights == rights }

// String returns the name of the role, and of another set of rights their names, such as
// "see and operate".
func (r Role) String() string {
	for _, n := range Roles {
		if n.Role == r {
			return n.Name
		}
	}
	return r.rights()
}

// rights are the names of the rights.
func (r Role) rights() string {
	var names []string
	for _, n := range RightNames {
		if r.Has(n.Role) {
			names = append(names, n.Name)
		}
	}
	return strings.Join(names, " and ")
}

// leastName is the name of the first role that has the rights.
func (r Role) leastName() string {
	for _, n := range Roles {
		if n.Role.Has(r) {
			return n.Name
		}
	}
	return Admin.String()
}

// A Need is what an operation needs of a visitor.
type Need struct {
	Rights Role // all of them; none means anybody who is known
	Own    bool // for what the visitor has started itself, RightOwn is enough
}

// Granted reports whether a role is enough, for something that the visitor has started
// itself, or has not.
func (n Need) Granted(r Role, own bool) bool {
	return r.Has(n.Rights) || n.Own && own && r.Has(RightOwn)
}

// String is the need for readers, such as "see, or own".
func (n Need) String() string {
	text := n.Rights.rights()
	if n.Rights == 0 {
		text = "any"
	}
	if n.Own {
		text += ", or own"
	}
	return text
}

// NeedOf returns what an operation needs. It panics if there is none of that name.
func NeedOf(operation string) Need {
	n, ok := operations[operation]
	if !ok {
		panic(fmt.Sprintf("there is no operation %q in the table of rights", operation))
	}
	return n
}

// Operations returns the names of all operations in their order.
func Operations() []string { return slices.Sorted(maps.Keys(operations)) }

// operations is the table of rights: what each operation needs, over HTTP by its
// operationId and on a page.
var operations = map[string]Need{
	// executions
	"startExecution":   {Rights: RightStart},
	"listExecutions":   {Rights: RightSee, Own: true},
	"getExecution":     {Rights: RightSee, Own: true},
	"watchExecution":   {Rights: RightSee, Own: true},
	"watchExecutions":  {Rights: RightSee, Own: true},
	"explainExecution": {Rights: RightSee, Own: true},
	"getResults":       {Rights: RightSee | RightValues, Own: true},
	"getResult":        {Rights: RightSee | RightValues, Own: true},
	"getOutline":       {Rights: RightSee},
	"listSteps":        {Rights: RightSee},
	"getStep":          {Rights: RightSee},
	"listAudit":        {Rights: RightSee},
	"listFailedItems":  {Rights: RightSee},
	"listFiles":        {Rights: RightSee | RightValues},
	"getValues":        {Rights: RightSee | RightValues},
	"getLog":           {Rights: RightSee | RightValues},
	"cancelExecution":  {Rights: RightOperate, Own: true},
	"pauseExecution":   {Rights: RightOperate},
	"releaseExecution": {Rights: RightOperate},
	"resumeExecution":  {Rights: RightOperate},
	"dryRunResume":     {Rights: RightOperate | RightSee | RightValues},
	"rerunExecution":   {Rights: RightOperate | RightStart},
	"bulk":             {Rights: RightOperate},
	"listKeptFiles":    {Rights: RightSee},
	"discardKeptFiles": {Rights: RightOperate | RightSee | RightValues}, // whose names are shown first

	// jobs
	"listJobs":        {Rights: RightSee},
	"getJob":          {Rights: RightSee},
	"listJobVersions": {Rights: RightSee},
	"diffJob":         {Rights: RightSee},
	"putJob":          {Rights: RightEdit},
	"dryRunJob":       {Rights: RightDryRun | RightSee | RightValues},
	"dryRunSentJob":   {Rights: RightEdit | RightDryRun | RightSee | RightValues},

	// chains: a chain belongs to no job, and starts any
	"startChain":          {Rights: RightStart},
	"listChains":          {Rights: RightSee},
	"getChain":            {Rights: RightSee},
	"listChainVersions":   {Rights: RightSee},
	"diffChain":           {Rights: RightSee},
	"putChain":            {Rights: RightEdit},
	"dryRunChain":         {Rights: RightDryRun | RightSee | RightValues},
	"dryRunSentChain":     {Rights: RightEdit | RightDryRun | RightSee | RightValues},
	"listChainExecutions": {Rights: RightSee},
	"getChainExecution":   {Rights: RightSee, Own: true},
	"cancelChain":         {Rights: RightOperate, Own: true},
	"pauseChain":          {Rights: RightOperate},
	"resumeChain":         {Rights: RightOperate},
	"releaseChain":        {Rights: RightOperate},
	"retryChain":          {Rights: RightOperate},
	"rerunChain":          {Rights: RightOperate | RightStart},

	// schedules, monitors and subscriptions
	"listSchedules":       {Rights: RightSee},
	"getSchedule":         {Rights: RightSee},
	"setSchedule":         {Rights: RightEdit},
	"removeSchedule":      {Rights: RightEdit},
	"enableSchedule":      {Rights: RightOperate},
	"disableSchedule":     {Rights: RightOperate},
	"getCalendar":         {Rights: RightSee},
	"explainCron":         {},
	"listMonitors":        {Rights: RightSee},
	"getMonitor":          {Rights: RightSee},
	"setMonitor":          {Rights: RightEdit},
	"removeMonitor":       {Rights: RightEdit},
	"enableMonitor":       {Rights: RightOperate},
	"disableMonitor":      {Rights: RightOperate},
	"pauseMonitor":        {Rights: RightOperate},
	"acknowledgeMonitor":  {Rights: RightOperate},
	"listMonitorFiles":    {Rights: RightSee | RightValues},
	"listSubscriptions":   {Rights: RightSee},
	"getSubscription":     {Rights: RightSee},
	"setSubscription":     {Rights: RightEdit},
	"removeSubscription":  {Rights: RightEdit},
	"enableSubscription":  {Rights: RightOperate}, // a page
	"disableSubscription": {Rights: RightOperate}, // a page
	"replaySubscription":  {Rights: RightOperate},
	"listDeliveries":      {Rights: RightSee},

	// checks and what definitions can have
	"checkjob":             {Rights: RightEdit},
	"checkchain":           {Rights: RightEdit},
	"checkschedule":        {Rights: RightEdit},
	"checkmonitor":         {Rights: RightEdit},
	"checksubscription":    {Rights: RightEdit},
	"listStepTypes":        {Rights: RightSee},
	"schemaOfjob":          {Rights: RightSee},
	"schemaOfchain":        {Rights: RightSee},
	"schemaOfschedule":     {Rights: RightSee},
	"schemaOfmonitor":      {Rights: RightSee},
	"schemaOfsubscription": {Rights: RightSee},

	// the service
	"listLimits":      {Rights: RightSee},
	"setLimit":        {Rights: RightAdmin},
	"removeLimit":     {Rights: RightAdmin},
	"listJournal":     {Rights: RightAdmin},
	"getAttention":    {Rights: RightSee},
	"getQueues":       {Rights: RightSee},
	"listWorkers":     {Rights: RightSee},
	"getHealth":       {Rights: RightSee},
	"search":          {Rights: RightSee, Own: true},
	"listConnections": {Rights: RightSee}, // a page
	"testConnection":  {Rights: RightOperate | RightSee | RightValues},
	"help":            {},
}

// Settings are what a job says of its executions, and what may be set when one is started:
// by who has RightOverride, and by a client where [Access.ClientMay] names them.
var Settings = []string{"priority", "limit_keys", "version", "timeout_seconds", "max_attempts"}
