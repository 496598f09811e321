package desk

import (
	"fmt"
	"maps"
	"slices"

	"github.com/courierhq/courier/access"
)

// A Need is the rights that an operation needs.
type Need struct {
	Rights access.Role // all of them; none means any known principal
	Own    bool        // access.RightOwn is enough for what the visitor has started itself
}

// Granted reports whether a role is enough. Own says whether the visitor has started the object
// of the operation itself.
func (n Need) Granted(r access.Role, own bool) bool {
	return r.Has(n.Rights) || n.Own && own && r.Has(access.RightOwn)
}

// String returns the need as text, such as "see, or own".
func (n Need) String() string {
	text := n.Rights.Rights()
	if n.Rights == 0 {
		text = "any"
	}
	if n.Own {
		text += ", or own"
	}
	return text
}

// NeedOf returns the need of an operation. It panics if there is no operation of that name.
func NeedOf(operation string) Need {
	n, ok := operations[operation]
	if !ok {
		panic(fmt.Sprintf("there is no operation %q in the table of rights", operation))
	}
	return n
}

// Operations returns the names of all operations in their order.
func Operations() []string { return slices.Sorted(maps.Keys(operations)) }

// operations is the table of rights: the need of each operation, by its operationId over HTTP and
// by its name on a page.
var operations = map[string]Need{
	// executions
	"startExecution":   {Rights: access.RightStart},
	"listExecutions":   {Rights: access.RightSee, Own: true},
	"getExecution":     {Rights: access.RightSee, Own: true},
	"watchExecution":   {Rights: access.RightSee, Own: true},
	"watchExecutions":  {Rights: access.RightSee, Own: true},
	"explainExecution": {Rights: access.RightSee, Own: true},
	"getResults":       {Rights: access.RightSee | access.RightValues, Own: true},
	"getResult":        {Rights: access.RightSee | access.RightValues, Own: true},
	"getOutline":       {Rights: access.RightSee},
	"listSteps":        {Rights: access.RightSee},
	"getStep":          {Rights: access.RightSee},
	"listAudit":        {Rights: access.RightSee},
	"listFailedItems":  {Rights: access.RightSee},
	"listRescuedItems": {Rights: access.RightSee},
	"listFiles":        {Rights: access.RightSee | access.RightValues},
	"getValues":        {Rights: access.RightSee | access.RightValues},
	"getLog":           {Rights: access.RightSee | access.RightValues},
	"cancelExecution":  {Rights: access.RightOperate, Own: true},
	"pauseExecution":   {Rights: access.RightOperate},
	"releaseExecution": {Rights: access.RightOperate},
	"resumeExecution":  {Rights: access.RightOperate},
	"dryRunResume":     {Rights: access.RightOperate | access.RightSee | access.RightValues},
	"rerunExecution":   {Rights: access.RightOperate | access.RightStart},
	"bulk":             {Rights: access.RightOperate},
	"listKeptFiles":    {Rights: access.RightSee},
	"discardKeptFiles": {Rights: access.RightOperate | access.RightSee | access.RightValues}, // whose names are shown first

	// jobs
	"listJobs":        {Rights: access.RightSee},
	"getJob":          {Rights: access.RightSee},
	"listJobVersions": {Rights: access.RightSee},
	"diffJob":         {Rights: access.RightSee},
	"putJob":          {Rights: access.RightEdit},
	"removeJob":       {Rights: access.RightEdit},
	"dryRunJob":       {Rights: access.RightDryRun | access.RightSee | access.RightValues},
	"dryRunSentJob":   {Rights: access.RightEdit | access.RightDryRun | access.RightSee | access.RightValues},

	// chains: a chain belongs to no job, and starts any
	"startChain":          {Rights: access.RightStart},
	"listChains":          {Rights: access.RightSee},
	"getChain":            {Rights: access.RightSee},
	"listChainVersions":   {Rights: access.RightSee},
	"diffChain":           {Rights: access.RightSee},
	"putChain":            {Rights: access.RightEdit},
	"removeChain":         {Rights: access.RightEdit},
	"dryRunChain":         {Rights: access.RightDryRun | access.RightSee | access.RightValues},
	"dryRunSentChain":     {Rights: access.RightEdit | access.RightDryRun | access.RightSee | access.RightValues},
	"listChainExecutions": {Rights: access.RightSee},
	"getChainExecution":   {Rights: access.RightSee, Own: true},
	"cancelChain":         {Rights: access.RightOperate, Own: true},
	"pauseChain":          {Rights: access.RightOperate},
	"resumeChain":         {Rights: access.RightOperate},
	"releaseChain":        {Rights: access.RightOperate},
	"retryChain":          {Rights: access.RightOperate},
	"rerunChain":          {Rights: access.RightOperate | access.RightStart},

	// calendars, schedules, monitors and subscriptions
	"listCalendars":        {Rights: access.RightSee},
	"getCalendar":          {Rights: access.RightSee},
	"setCalendar":          {Rights: access.RightEdit},
	"removeCalendar":       {Rights: access.RightEdit},
	"listCalendarVersions": {Rights: access.RightSee},
	"listSchedules":        {Rights: access.RightSee},
	"getSchedule":          {Rights: access.RightSee},
	"setSchedule":          {Rights: access.RightEdit},
	"removeSchedule":       {Rights: access.RightEdit},
	"enableSchedule":       {Rights: access.RightOperate},
	"disableSchedule":      {Rights: access.RightOperate},
	"listTicks":            {Rights: access.RightSee},
	"explainCron":          {},
	"listMonitors":         {Rights: access.RightSee},
	"getMonitor":           {Rights: access.RightSee},
	"setMonitor":           {Rights: access.RightEdit},
	"removeMonitor":        {Rights: access.RightEdit},
	"enableMonitor":        {Rights: access.RightOperate},
	"disableMonitor":       {Rights: access.RightOperate},
	"pauseMonitor":         {Rights: access.RightOperate},
	"acknowledgeMonitor":   {Rights: access.RightOperate},
	"listMonitorFiles":     {Rights: access.RightSee | access.RightValues},
	"listExpectations":     {Rights: access.RightSee},
	"getExpectation":       {Rights: access.RightSee},
	"setExpectation":       {Rights: access.RightEdit},
	"removeExpectation":    {Rights: access.RightEdit},
	"excuseExpectation":    {Rights: access.RightOperate},
	"listArrivals":         {Rights: access.RightSee},
	"exportArrivals":       {Rights: access.RightSee},
	"listSubscriptions":    {Rights: access.RightSee},
	"getSubscription":      {Rights: access.RightSee},
	"setSubscription":      {Rights: access.RightEdit},
	"removeSubscription":   {Rights: access.RightEdit},
	"enableSubscription":   {Rights: access.RightOperate}, // a page
	"disableSubscription":  {Rights: access.RightOperate}, // a page
	"replaySubscription":   {Rights: access.RightOperate},
	"listDeliveries":       {Rights: access.RightSee},

	// what needs somebody
	"acknowledge":             {Rights: access.RightOperate},
	"withdrawAcknowledgement": {Rights: access.RightOperate},

	// checks and what definitions can have
	"checkjob":             {Rights: access.RightEdit},
	"checkchain":           {Rights: access.RightEdit},
	"checkschedule":        {Rights: access.RightEdit},
	"checkmonitor":         {Rights: access.RightEdit},
	"checkexpectation":     {Rights: access.RightEdit},
	"checksubscription":    {Rights: access.RightEdit},
	"checkcalendar":        {Rights: access.RightEdit},
	"listStepTypes":        {Rights: access.RightSee},
	"schemaOfjob":          {Rights: access.RightSee},
	"schemaOfchain":        {Rights: access.RightSee},
	"schemaOfschedule":     {Rights: access.RightSee},
	"schemaOfmonitor":      {Rights: access.RightSee},
	"schemaOfsubscription": {Rights: access.RightSee},
	"schemaOfcalendar":     {Rights: access.RightSee},
	"schemaOfexpectation":  {Rights: access.RightSee},

	// the service
	"listLimits":      {Rights: access.RightSee},
	"setLimit":        {Rights: access.RightAdmin},
	"removeLimit":     {Rights: access.RightAdmin},
	"listJournal":     {Rights: access.RightAdmin},
	"getAttention":    {Rights: access.RightSee},
	"getQueues":       {Rights: access.RightSee},
	"listWorkers":     {Rights: access.RightSee},
	"getFigures":      {Rights: access.RightSee},
	"getHealth":       {Rights: access.RightSee},
	"getMetrics":      {Rights: access.RightSee},
	"search":          {Rights: access.RightSee, Own: true},
	"listConnections": {Rights: access.RightSee}, // a page
	"testConnection":  {Rights: access.RightOperate | access.RightSee | access.RightValues},
	"help":            {},
}
