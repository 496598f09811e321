// Package format writes values for the pages of the dashboard: numbers, times, statuses and JSON.
// The HTML that it returns contains no text from outside, unless the text is escaped.
package format

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/courierhq/courier"
)

// Capital returns a word with a capital letter.
func Capital(word string) string { return strings.ToUpper(word[:1]) + word[1:] }

// Plural returns a whole number with a noun.
func Plural(n any, noun string) string {
	switch {
	case fmt.Sprint(n) == "1":
		return "1 " + noun
	case noun[len(noun)-1] == 'y':
		noun = noun[:len(noun)-1] + "ie"
	}
	return Count(n) + " " + noun + "s"
}

// Took returns a duration in words, such as "1 m 22 s".
func Took(d time.Duration) string {
	switch {
	case d < 0:
		return "–"
	case d < time.Millisecond:
		return "< 1 ms"
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%d m %d s", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d m", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d days %d h", int(d.Hours())/24, int(d.Hours())%24)
}

// Count returns a whole number with commas between thousands.
func Count(n any) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Clip returns the first n characters of a text, and "…" if it has more.
func Clip(n int, s string) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	i := 0
	for at := range s {
		if i == n {
			return s[:at] + "…"
		}
		i++
	}
	return s
}

// Long reports whether a text has more than n characters.
func Long(n int, s string) bool { return utf8.RuneCountInString(s) > n }

// Sentence returns a message of an error with a capital letter and a full stop.
func Sentence(s string) string {
	if s == "" {
		return s
	}
	s = strings.ToUpper(s[:1]) + s[1:]
	return Stop(s)
}

// Stop returns a text with a full stop, unless it ends with one, or with another end of a sentence.
func Stop(s string) string {
	for _, end := range []string{".", "!", "?", "…"} {
		if strings.HasSuffix(s, end) {
			return s
		}
	}
	return s + "."
}

// Span returns a length of time in full, without the units that are zero, such as "5 min" and "1 h
// 30 min". It returns "0 s" for zero.
func Span(d time.Duration) string {
	var parts []string
	for _, u := range []struct {
		unit time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "min"}} {
		if n := d / u.unit; n > 0 {
			parts, d = append(parts, fmt.Sprintf("%d %s", n, u.name)), d%u.unit
		}
	}
	switch {
	case d > 0 && d < time.Second:
		parts = append(parts, strconv.FormatFloat(float64(d)/float64(time.Millisecond), 'f', -1, 64)+" ms")
	case d > 0 || len(parts) == 0:
		parts = append(parts, strconv.FormatFloat(d.Seconds(), 'f', -1, 64)+" s")
	}
	return strings.Join(parts, " ")
}

// InItem returns the iteration of a step in words: the labels of the items or, if they are not
// known, the indexes of the items, counted from 0. It is empty outside loops.
func InItem(labels []string, iteration []int) string {
	switch {
	case len(iteration) == 0:
		return ""
	case len(labels) != len(iteration):
		return " at index " + courier.FormatIteration(iteration)
	}
	return " at " + courier.FormatItems(labels, iteration)
}

// Item names an item of a loop by its label and its index. The index includes the indexes of the
// loops around it.
func Item(label string, iteration []int) string {
	index := "index " + courier.FormatIteration(iteration)
	if label == courier.IndexLabel(iteration) || label == "" {
		return index
	}
	return label + " (" + index + ")"
}
