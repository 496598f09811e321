package schemadoc

import (
	"github.com/courierhq/courier/monitor"
	"github.com/courierhq/courier/schedule"
)

// day is the longest time between two looks, and the most by which a tick may be late.
const day = 24 * 60 * 60

// schedule returns the schema of schedules.
func (b *builder) schedule() Schema {
	every := described(Schema{"type": "number", "minimum": 1}, "The time between two ticks, in whole milliseconds.", nil)
	jitter := seconds("Every tick fires late by a time from 0 to this one.")
	jitter["maximum"] = day
	s := Object(Schema{
		"name":           name("The name of the schedule."),
		"job":            known("The name of the job that is started.", b.names.Jobs),
		"chain":          known("The name of the chain that is started.", b.names.Chains),
		"cron":           described(Schema{"type": "string", "pattern": `^\s*\S+(\s+\S+){5,6}\s*$`}, "An expression in Quartz' form, seconds first, such as 0 0 3 ? * TUE; or the word crontab and five fields, such as crontab 0 3 * * 2.", nil),
		"time_zone":      described(text("The time zone of cron, by its name in the tz database, such as Europe/Berlin."), "", "UTC"),
		"every_seconds":  every,
		"at":             instant("The only tick of a schedule that fires once."),
		"calendar":       text("The name of the calendar that it goes by; none: all days are open."),
		"on_closed":      enum("What happens to ticks of days that the calendar closes.", schedule.ClosedSkip, schedule.ClosedSkip, schedule.ClosedNext, schedule.ClosedPrevious),
		"starts_at":      instant("No tick is before it."),
		"ends_at":        instant("No tick is after it."),
		"params":         Schema{"type": "object", "description": "The parameters of the executions."},
		"priority":       priority(),
		"overlap":        enum("What happens to a tick while an execution that the schedule has started has not ended.", schedule.OverlapAllow, schedule.OverlapAllow, schedule.OverlapSkip, schedule.OverlapQueue, schedule.OverlapCancel),
		"misfire":        enum("What happens to ticks that were missed.", schedule.MisfireOnce, schedule.MisfireOnce, schedule.MisfireAll, schedule.MisfireSkip),
		"window_seconds": described(seconds("How long ago a tick may be for fire_all."), "", day),
		"jitter_seconds": jitter,
		"pause_after":    whole("Pauses the schedule when so many executions in a row have failed; 0 is never.", 0, nil),
		"disabled":       boolean("The schedule does not fire."),
		"paused":         reports("boolean"), "reason": reports("string"), "next_fire": reports("string"), "waiting": reports("boolean"),
		"last_fire": reports("string"), "last_execution": reports("string"), "failures": reports("integer"), "problem": reports("string"),
		"saved_at": reports("string"), "moves_from": reports("string"),
	}, "name")
	s["allOf"] = []Schema{
		exactlyOne("job", "chain"), exactlyOne("cron", "every_seconds", "at"),
		unless(has("misfire", schedule.MisfireAll), forbidden("window_seconds")),
	}
	s["dependencies"] = Schema{"time_zone": []string{"cron"}, "at": forbidden("starts_at", "ends_at", "calendar"), "on_closed": []string{"calendar"}}
	return s
}

// monitor returns the schema of monitors.
func (b *builder) monitor() Schema {
	const maxPatterns, maxPattern = 100, 255
	within := func(doc string, value any) Schema {
		s := described(seconds(doc), "", value)
		s["maximum"] = day
		return s
	}
	patterns := list(Schema{"type": "string", "minLength": 1, "maxLength": maxPattern, "pattern": `^[^/\\]*$`}, "Select files by their names, with * and ?; none selects all.")
	patterns["maxItems"] = maxPatterns
	events := list(enum("", nil, monitor.Created, monitor.Modified, monitor.Exists), "What starts executions. Default: created.")
	events["uniqueItems"] = true
	s := Object(Schema{
		"name":           name("The name of the monitor."),
		"description":    text("A text for people."),
		"lister":         described(text("What lists the directory."), "", "file"),
		"connection_id":  b.anyConnection(),
		"path":           needed("The directory; directories in it are not searched."),
		"patterns":       patterns,
		"events":         events,
		"every_seconds":  within("The time between two polls.", 60),
		"calendar":       text("The name of the calendar that it goes by: it polls on open days only. None: all days are open."),
		"between":        b.hours(),
		"stable_seconds": within("How long size and time of a file must not change before it is ready.", 5),
		"done_file":      described(Schema{"type": "string", "maxLength": maxPattern, "pattern": `^[^/\\*?]*$`}, "The ending of a second file, which says that the first one is complete, such as .done.", nil),
		"batch":          boolean("All files that are ready are handed over to one execution."),
		"job":            known("The name of the job that is started.", b.names.Jobs),
		"chain":          known("The name of the chain that is started.", b.names.Chains),
		"params":         described(forbidden("files", "monitor"), "Parameters of the executions besides files and monitor.", nil),
		"priority":       priority(),
		"max_failures":   described(whole("The number of failed polls in a row after which the monitor is in the state error.", 0, nil), "", 5),
		"disabled":       boolean("The monitor does not poll."),
		"expectation":    reports("string"),
		"state":          reports("string"), "reason": reports("string"), "health": reports("object"), "next_poll": reports("string"),
		"saved_at": reports("string"),
	}, "name", "path")
	s["allOf"] = []Schema{exactlyOne("job", "chain", "expectation")}
	s["dependencies"] = Schema{"chain": forbidden("priority"), "between": []string{"calendar"}}
	return s
}

// hours is the schema of the times of a day between which a monitor polls.
func (b *builder) hours() Schema {
	clock := func(doc string) Schema {
		return described(Schema{"type": "string", "pattern": `^([01]?[0-9]|2[0-3]):[0-5][0-9]$`}, doc, nil)
	}
	s := Object(Schema{"from": clock("A time of the day, such as 06:00; none: its begin."), "until": clock("A time of the day, such as 19:30; none: its end.")})
	s["description"] = "The times of an open day between which it polls, in the time zone of the calendar."
	return s
}

// calendar returns the schema of calendars.
func (b *builder) calendar() Schema {
	const maxDates, maxTitle = 5000, 200
	date := func(doc string) Schema {
		return described(Schema{"type": "string", "pattern": `^(19[7-9][0-9]|2[01][0-9]{2})-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])$`}, doc, nil)
	}
	title := func() Schema {
		return described(Schema{"type": "string", "maxLength": maxTitle}, "What day it is, such as Labour Day.", nil)
	}
	weekend := list(Schema{"enum": []string{"monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"}}, "The days of the week that are closed.")
	weekend["uniqueItems"] = true
	closed := list(Schema{"anyOf": []Schema{
		date("A date, such as 2026-12-25."),
		Object(Schema{"date": date("A date, such as 2026-12-25."), "title": title()}, "date"),
		Object(Schema{"yearly": described(Schema{"type": "string", "pattern": `^(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])$`}, "Month and day of every year, such as 05-01.", nil), "title": title()}, "yearly"),
	}}, "Further days that are closed.")
	open := list(date("A date, such as 2026-11-28."), "Dates that are open although they are of the weekend or closed every year.")
	closed["maxItems"], open["maxItems"] = maxDates, maxDates
	return Object(Schema{
		"name":        name("The name of the calendar."),
		"description": text("A text for people."),
		"time_zone":   described(text("The time zone in which days begin and end, by its name in the tz database, such as Europe/Berlin."), "", "UTC"),
		"weekend":     weekend,
		"closed":      closed,
		"open":        open,
		"version":     reports("integer"), "saved_by": reports("string"), "saved_at": reports("string"),
	}, "name")
}

// expectation returns the schema of expectations.
func (b *builder) expectation() Schema {
	const maxPattern, maxCount = 255, 1000
	clock := func(doc string) Schema {
		return described(Schema{"type": "string", "pattern": `^([01]?[0-9]|2[0-3]):[0-5][0-9]$`}, doc, nil)
	}
	length := func(doc string) Schema {
		return described(Schema{"type": "string", "pattern": `^\+?(0|([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)(([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))*)$`}, doc, nil)
	}
	number := func(doc string, most any) Schema { return whole(doc, 0, most) }
	from := Object(Schema{
		"monitor":       text("The name of the monitor that sees the files."),
		"job":           known("The name of the job whose steps receive the files.", b.names.Jobs),
		"path":          needed("The directory into which the expectation looks itself."),
		"connection_id": b.anyConnection(),
		"lister":        text("What lists the path. None: the one that knows the connection, or file."),
		"every":         length("The time between two polls of the path, at most 10m; none: a minute."),
	})
	from["description"] = "Where the files come from."
	from["allOf"] = []Schema{exactlyOne("monitor", "job", "path")}
	from["dependencies"] = Schema{"connection_id": []string{"path"}, "lister": []string{"path"}, "every": []string{"path"}}
	count := Object(Schema{"least": number("The least; none or 0 means 1.", maxCount), "most": number("The most; none or 0 means any number.", maxCount)})
	count["description"] = "How many files of the right size a day has to have."
	bytes := Object(Schema{"least": number("The least size; none means 1, and with 0 empty files are right.", nil), "most": number("The most; none or 0 means any size.", nil)})
	bytes["description"] = "How large a file has to be, in bytes."
	window := Object(Schema{
		"from": clock("When it opens, such as 06:00."), "until": clock("When the files have to be there, such as 07:50; not after from: on the next day."),
		"grace": length("How long after until files are still on time, such as 20m."),
	}, "from", "until")
	window["description"] = "The time of a day in which files are to come. It belongs to the day on which it opens."
	label := Schema{"type": "object", "additionalProperties": Schema{"type": "string", "maxLength": 200}, "maxProperties": 20, "description": "What people want to find it by."}
	s := Object(Schema{
		"name":        name("The name of the expectation."),
		"description": text("A text for people."),
		"from":        from,
		"pattern":     described(Schema{"type": "string", "minLength": 1, "maxLength": maxPattern, "pattern": `^[^/\\]*$`}, "Selects files by their names, with *, ? and {date:20060102} for the day.", nil),
		"count":       count,
		"bytes":       bytes,
		"window":      window,
		"calendar":    text("The name of the calendar that it goes by: nothing is expected on days that it closes. None: all days are open."),
		"cron":        described(Schema{"type": "string", "pattern": `^\s*\S+(\s+\S+){5,6}\s*$`}, "On which days something is expected, if not on each: those with a tick, such as 0 0 0 ? * MON.", nil),
		"time_zone":   described(text("The time zone of the window without a calendar, such as Europe/Berlin."), "", "UTC"),
		"due_soon":    length("How long before the end of the window a day is due soon, such as 30m."),
		"early":       length("How long before the window a file counts for its day although an earlier day is missing, such as 2h."),
		"label":       label,
		"disabled":    boolean("Nothing is expected."),
		"health":      reports("object"), "saved_at": reports("string"),
	}, "name", "from", "pattern", "window")
	s["dependencies"] = Schema{"time_zone": forbidden("calendar")}
	return s
}

// anyConnection is the schema of the id of a connection of any family.
func (b *builder) anyConnection() Schema {
	s := text("The connection to the server; none for a directory of the machine.")
	var all []string
	for _, ids := range b.names.Connections {
		all = append(all, ids...)
	}
	if len(all) > 0 {
		s["examples"] = sorted(all)
	}
	return s
}
