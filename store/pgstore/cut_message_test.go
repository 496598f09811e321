package pgstore_test

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/courierhq/courier/internal/test/pgproxy"
)

// A kind is a kind of message: what the connection is busy with, the direction
// and the type.
type kind struct {
	statement string // "connect" before there was one
	server    bool   // sent by the server
	typ       byte   // as in [pgproxy.Message]
}

func (k kind) side() string {
	if k.server {
		return "server"
	}
	return "client"
}

// opening is how messages without a type are called.
const opening = "open"

func (k kind) String() string {
	typ := opening
	if k.typ != 0 {
		typ = string(rune(k.typ))
	}
	return k.statement + ":" + k.side() + ":" + typ
}

func (k kind) compare(l kind) int { return strings.Compare(k.String(), l.String()) }

// A cut is where a connection is cut: at the n-th message of a kind in a run of
// a scenario, before or after its delivery.
type cut struct {
	scenario string
	cold     bool // the store has no connections to begin with
	kind
	n     int
	after bool
}

func (c cut) String() string {
	store, when := "warm", "before"
	if c.cold {
		store = "cold"
	}
	if c.after {
		when = "after"
	}
	return fmt.Sprintf("%s:%s:%v:%d:%s", c.scenario, store, c.kind, c.n, when)
}

// parseCut is the reverse of String.
func parseCut(text string) (cut, error) {
	f := strings.Split(text, ":")
	if len(f) != 7 || f[4] == "" {
		return cut{}, fmt.Errorf("cut %q: not of the form scenario:store:statement:side:type:n:when", text)
	}
	c := cut{scenario: f[0], cold: f[1] == "cold", kind: kind{statement: f[2], server: f[3] == "server"}, after: f[6] == "after"}
	if f[4] != opening {
		c.typ = f[4][0]
	}
	var err error
	c.n, err = strconv.Atoi(f[5])
	if err == nil && c.String() != text {
		err = fmt.Errorf("it reads as %v", c)
	}
	if err != nil {
		return cut{}, fmt.Errorf("cut %q: %w", text, err)
	}
	return c, nil
}

// A tap records the statement that each connection of a proxy executes.
type tap map[int]*dialogue // by connection

// A dialogue is what a connection is busy with.
type dialogue struct {
	statement string
	prepared  map[string]string // statements by name
}

// watch sees a message that is not counted.
func (t tap) watch(m pgproxy.Message) pgproxy.Action {
	t.kindOf(m)
	return pgproxy.Pass
}

func (t tap) kindOf(m pgproxy.Message) kind {
	d := t[m.Conn]
	if d == nil {
		d = &dialogue{"connect", make(map[string]string)}
		t[m.Conn] = d
	}
	if !m.FromServer {
		first, rest, _ := bytes.Cut(m.Body, []byte{0})
		second, _, _ := bytes.Cut(rest, []byte{0})
		switch m.Type {
		case 'P':
			d.statement = statementName(string(second))
			d.prepared[string(first)] = d.statement
		case 'B':
			d.statement = d.prepared[string(second)]
		case 'Q':
			d.statement = statementName(string(first))
		}
	}
	return kind{d.statement, m.FromServer, m.Type}
}

// A blade counts the messages that pass, and cuts one connection once.
type blade struct {
	tap
	at     *cut // nil: none
	deaf   bool // no request to cancel a statement arrives
	counts map[kind]int
	fell   bool
}

// cancelRequest begins what the driver sends on a connection of its own when one
// is broken, to end the statement that the server still executes.
var cancelRequest = []byte{4, 210, 22, 46}

// judge counts a message and decides about it.
func (b *blade) judge(m pgproxy.Message) pgproxy.Action {
	k := b.kindOf(m)
	if b.deaf && m.Type == 0 && bytes.HasPrefix(m.Body, cancelRequest) {
		return pgproxy.CutBefore
	}
	b.counts[k]++
	if b.at == nil || b.fell || b.at.kind != k || b.at.n != b.counts[k] {
		return pgproxy.Pass
	}
	b.fell = true
	if b.at.after {
		return pgproxy.CutAfter
	}
	return pgproxy.CutBefore
}

var courierName = regexp.MustCompile(`^/\* courier: ([\w/+]+) \*/`)

// statementName is the name that the store gave a statement, or its first word.
func statementName(sql string) string {
	if m := courierName.FindStringSubmatch(sql); m != nil {
		return m[1]
	}
	word, _, _ := strings.Cut(strings.TrimSpace(sql), " ")
	return cmp.Or(strings.Trim(strings.ToLower(word), ";:"), "empty")
}

// A survey is how often each kind of message passed when a scenario ran
// undisturbed, on either kind of store.
type survey struct {
	scenario   string
	cold, warm map[kind]int
}

// A site is all messages of a kind, in a scenario.
type site struct {
	scenario string
	cold     bool
	kind
	count int
}

func (s site) cut(n int, after bool) cut { return cut{s.scenario, s.cold, s.kind, n, after} }

// sites returns where connections can be cut. A store that is in use is cheaper;
// the other serves for what happens there only, or, if all is set, for all.
func (s *survey) sites(all bool) []site {
	var list []site
	for _, k := range slices.SortedFunc(maps.Keys(s.warm), kind.compare) {
		if !k.begins() && k.statement != ping {
			list = append(list, site{s.scenario, false, k, s.warm[k]})
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(s.cold), kind.compare) {
		if all || k.begins() || s.warm[k] == 0 {
			list = append(list, site{s.scenario, true, k, s.cold[k]})
		}
	}
	return list
}

// ping is the statement by which the pool tries connections that were idle for a
// second, which happens by chance.
const ping = "--"

// begins reports whether such a message only passes when a connection is made,
// or sees a statement for the first time.
func (k kind) begins() bool {
	switch k.typ {
	case 'P', '1', 't', 'T', 'n':
		return true
	case 'D':
		return !k.server
	}
	return k.statement == "connect" || k.statement == "listen"
}

// everyCut returns all cuts of the surveys.
func everyCut(surveys []survey) []cut {
	var list []cut
	for i := range surveys {
		for _, s := range surveys[i].sites(true) {
			for n := range s.count {
				list = append(list, s.cut(n+1, false), s.cut(n+1, true))
			}
		}
	}
	return list
}

// A sampler chooses among all cuts.
type sampler struct {
	rand   *rand.Rand
	chosen map[cut]bool
	list   []cut
}

// someCuts returns n cuts: of every scenario one for each type of message, each
// direction, before and after; of every statement likewise; and otherwise by
// chance, of each kind of message as often as of others. It returns more than n
// where that would be too few.
func someCuts(surveys []survey, n int, seed uint64) []cut {
	s := &sampler{rand: rand.New(rand.NewPCG(seed, 0)), chosen: make(map[cut]bool)}
	all := make([][]site, len(surveys))
	byKind := make(map[kind][]site)
	for i := range surveys {
		all[i] = surveys[i].sites(false)
		byType := make(map[kind][]site)
		for _, at := range all[i] {
			t := kind{server: at.server, typ: at.typ}
			byType[t] = append(byType[t], at)
			byKind[at.kind] = append(byKind[at.kind], at)
		}
		s.addEach(byType)
	}
	for k := range byKind {
		for c := range s.chosen {
			if c.kind == k {
				delete(byKind, k)
			}
		}
	}
	s.addEach(byKind)
	for range 20 * n { // most are new
		if len(s.list) >= n {
			break
		}
		s.add(all[s.rand.IntN(len(all))], s.rand.IntN(2) == 0)
	}
	return s.list
}

// addEach chooses two cuts among each of several sites, before and after.
func (s *sampler) addEach(of map[kind][]site) {
	for _, k := range slices.SortedFunc(maps.Keys(of), kind.compare) {
		s.add(of[k], false)
		s.add(of[k], true)
	}
}

// add chooses a cut at one of the sites, unless it was chosen before.
func (s *sampler) add(sites []site, after bool) {
	at := sites[s.rand.IntN(len(sites))]
	c := at.cut(1+s.rand.IntN(at.count), after)
	if !s.chosen[c] {
		s.chosen[c] = true
		s.list = append(s.list, c)
	}
}
