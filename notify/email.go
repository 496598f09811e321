package notify

import (
	"context"
	"errors"
	"fmt"
	"html"
	"net/mail"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/text"
)

// A Mailer sends e-mail for subscriptions of kind email. Several goroutines may call it. If it
// returns an error marked with [courier.Permanent], the mail is not retried. Package x/mail has a
// Mailer for SMTP.
type Mailer interface {
	Send(ctx context.Context, m Mail) error
}

// A Mail is a message to send. Subject has no line breaks. Text and HTML have the same content.
type Mail struct {
	// ID is the ID of the event. It is the same in every attempt.
	ID      string
	To      []string
	Subject string
	Text    string
	HTML    string
}

// mail sends a notification by e-mail.
func (v *Service) mail(ctx context.Context, to *EmailTarget, n Notification) error {
	m := mailOf(to, &n)
	return v.guarded("the mailer", n, func() error { return v.opt.Mailer.Send(ctx, m) })
}

// happened has the names of events in messages.
var happened = map[courier.EventType]string{
	courier.EventJobStarted: "started", courier.EventJobCompleted: "completed", courier.EventJobFailed: "failed",
	courier.EventJobPaused: "paused", courier.EventJobResumed: "resumed", courier.EventJobCancelled: "cancelled",
	courier.EventJobTakenOver: "taken over", courier.EventJobOverdue: "is overdue",
	courier.EventStepStarted: "started", courier.EventStepCompleted: "completed", courier.EventStepFailed: "failed",
	courier.EventStepSkipped: "skipped", courier.EventStep: "has an event",
	courier.EventChainStarted: "started", courier.EventChainCompleted: "completed", courier.EventChainFailed: "failed",

	courier.EventFileDueSoon: "is due soon", courier.EventFileArrived: "has arrived", courier.EventFileIncomplete: "is incomplete",
	courier.EventFileMissing: "is missing", courier.EventFileLate: "is late", courier.EventFileUnexpected: "has an unexpected file",
}

const (
	maxSubject     = 150  // bytes of the title of the event
	maxMailPayload = 2000 // bytes of the payload of an event
)

// mailOf returns the message for a notification.
func mailOf(to *EmailTarget, n *Notification) Mail {
	prefix := to.Subject
	if prefix == "" {
		prefix = "Courier"
	}
	title := text.Shorten(oneLine(titleOf(n)), maxSubject)
	if n.Count > 1 {
		title += fmt.Sprintf(", and %d more times", n.Count-1)
	}
	lines := linesOf(n)
	m := Mail{ID: n.ID, To: to.To, Subject: oneLine(prefix) + ": " + title}
	var text, page strings.Builder
	text.WriteString(title + "\n\n")
	page.WriteString("<!DOCTYPE html>\n<html><body>\n<h3>" + html.EscapeString(title) + "</h3>\n<table>\n")
	for _, l := range lines {
		fmt.Fprintf(&text, "%s: %s\n", l[0], l[1])
		fmt.Fprintf(&page, "<tr><td>%s</td><td>%s</td></tr>\n", html.EscapeString(l[0]), html.EscapeString(l[1]))
	}
	page.WriteString("</table>\n")
	if n.URL != "" {
		fmt.Fprintf(&text, "\n%s\n", n.URL)
		fmt.Fprintf(&page, "<p><a href=\"%s\">Open its page</a></p>\n", html.EscapeString(n.URL))
	}
	if n.Count > 1 {
		fmt.Fprintf(&text, "\nSince then (%d", n.Count-1)
		fmt.Fprintf(&page, "<p>Since then (%d", n.Count-1)
		if rest := n.Count - 1 - len(n.Coalesced); rest > 0 {
			fmt.Fprintf(&text, ", the first %d of them", len(n.Coalesced))
			fmt.Fprintf(&page, ", the first %d of them", len(n.Coalesced))
		}
		text.WriteString("):\n")
		page.WriteString("):</p>\n<ul>\n")
		for _, o := range n.Coalesced {
			line := strings.TrimSpace(fmt.Sprintf("%s  %s  %s", o.At.Format(time.RFC3339), o.Execution, oneLine(o.Error)))
			text.WriteString("- " + line + "\n")
			page.WriteString("<li>" + html.EscapeString(line) + "</li>\n")
		}
		page.WriteString("</ul>\n")
	}
	page.WriteString("</body></html>\n")
	m.Text, m.HTML = text.String(), page.String()
	return m
}

// titleOf describes the event in a few words.
func titleOf(n *Notification) string {
	what := fmt.Sprintf("job %q", n.Job)
	switch {
	case n.Expectation != "":
		what = fmt.Sprintf("expectation %q", n.Expectation)
	case n.Job == "":
		what = fmt.Sprintf("chain %q", n.Chain)
	case n.Step != nil && n.Type != courier.EventJobFailed: // the lines of job.failed name the step
		what += ": " + courier.StepLabel(*n.Step, n.StepID, n.StepType)
	}
	return what + " " + happened[n.Type]
}

// linesOf returns the details of a notification, each with its name.
func linesOf(n *Notification) [][2]string {
	var lines [][2]string
	add := func(name, value string) {
		if value != "" {
			lines = append(lines, [2]string{name, value})
		}
	}
	add("When", n.At.Format(time.RFC3339))
	add("Execution", string(n.Execution))
	if n.Job != "" {
		add("Chain", n.Chain)
	}
	add("Chain execution", string(n.ChainExecution))
	if n.Step != nil && n.Type == courier.EventJobFailed {
		add("Step", courier.StepLabel(*n.Step, n.StepID, n.StepType))
	}
	if len(n.ItemLabels) == len(n.Iteration) {
		add("Item", courier.FormatItems(n.ItemLabels, n.Iteration))
	} else {
		add("Iteration", courier.FormatIteration(n.Iteration))
	}
	if n.StepAttempt > 1 {
		add("Attempt", fmt.Sprint(n.StepAttempt))
	}
	add("Reason", string(n.Reason))
	add("Error", n.Error)
	for i := range n.Failed {
		f := &n.Failed[i]
		item := courier.FormatItem(f.Label, f.Index)
		add("Failed", fmt.Sprintf("%s, at step %s: %s", item, f.Step, oneLine(strings.TrimPrefix(f.Message, item+": "))))
	}
	if more := n.FailedItems - len(n.Failed); more > 0 && len(n.Failed) > 0 {
		add("Failed", fmt.Sprintf("and %d more", more))
	}
	add("Finally part", n.FinallyError)
	add("Event", n.Name)
	add("Payload", text.Shorten(string(n.Payload), maxMailPayload))
	add("By", n.By)
	return lines
}

// oneLine returns s without line breaks and other control characters.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
}

// email checks the receivers of a subscription.
func (c *check) email(to *EmailTarget) {
	if len(to.To) == 0 {
		c.problem("email.to", "there is nobody; name an address at least")
	}
	for i, a := range to.To {
		if err := checkAddress(a); err != nil {
			c.problem(fmt.Sprintf("email.to[%d]", i), "%q: %v", a, err)
		}
	}
	if oneLine(to.Subject) != to.Subject || len(to.Subject) > maxSubject {
		c.problem("email.subject", "must be one line of at most %d bytes", maxSubject)
	}
}

// checkAddress returns an error if a text is not the address of a mailbox.
func checkAddress(text string) error {
	if oneLine(text) != text {
		return errors.New("it contains control characters")
	}
	if _, err := mail.ParseAddress(text); err != nil {
		return errors.New("it is not an address such as ops@example.com or Operations <ops@example.com>")
	}
	return nil
}
