package main

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// A bench measures one thing of Courier's, and the same of its peers.
type bench struct {
	name    string
	figures []figure
	peers   []string
	// turn measures one contestant once and returns a value for each figure.
	turn func(ctx context.Context, h *harness, who string) ([]float64, error)
	// once says that a contestant has one turn only, which is long.
	once bool
}

// A figure is one of the values that a bench yields.
type figure struct {
	name string // appended to the bench's with a hyphen; may be empty
	unit string
	less bool // the less the better
}

// courierName is the contestant with which all others are compared.
const courierName = "courier"

// Peers that are Courier itself under easier conditions, or the bare
// database. They stay where others are left out, because the bench has no
// meaning without them.
const (
	emptyTables = "empty"   // no history in the tables
	freeTables  = "free"    // no transaction that holds back the cleaning up
	firstSteps  = "first"   // the first steps of a long execution
	bareCommits = "commits" // as many commits of a single small update
)

var yardsticks = []string{emptyTables, freeTables, firstSteps, bareCommits}

// full is the name of a figure of the bench, as results have it.
func (b *bench) full(f figure) string { return fullName(b.name, f) }

func fullName(name string, f figure) string {
	if f.name == "" {
		return name
	}
	return name + "-" + f.name
}

// A pick is a bench with the figures and peers that were chosen.
type pick struct {
	bench
	chosen map[string][]string // the peers, by the full name of the figure
}

// contestants returns the chosen peers, in the bench's order, after Courier.
func (p *pick) contestants() []string {
	list := []string{courierName}
	for _, peer := range p.peers {
		for _, names := range p.chosen {
			if slices.Contains(names, peer) {
				list = append(list, peer)
				break
			}
		}
	}
	return list
}

// choose returns what is to be measured: the figures that match together with
// a peer, as bench/peer, and of the peers those that are wanted. A figure whose
// peers are all left out stands alone.
func choose(all []bench, match *regexp.Regexp, wanted string) ([]pick, error) {
	keep, err := peerFilter(all, wanted)
	if err != nil {
		return nil, err
	}
	var picks []pick
	for _, b := range all {
		p := pick{bench: b, chosen: map[string][]string{}}
		for _, f := range b.figures {
			name := b.full(f)
			var peers []string
			found := len(b.peers) == 0 && match.MatchString(name+"/")
			for _, peer := range b.peers {
				if match.MatchString(name + "/" + peer) {
					found = true
					if keep(peer) {
						peers = append(peers, peer)
					}
				}
			}
			if found {
				p.chosen[name] = peers
			}
		}
		if len(p.chosen) > 0 {
			picks = append(picks, p)
		}
	}
	if len(picks) == 0 {
		return nil, fmt.Errorf("-only: no bench matches; -list shows them all")
	}
	return picks, nil
}

// peerFilter returns what -peers says about a peer.
func peerFilter(all []bench, wanted string) (func(string) bool, error) {
	switch wanted {
	case "all":
		return func(string) bool { return true }, nil
	case "none":
		return func(peer string) bool { return slices.Contains(yardsticks, peer) }, nil
	}
	var known []string
	for _, b := range all {
		known = append(known, b.peers...)
	}
	slices.Sort(known)
	known = slices.Compact(known)
	names := strings.Split(wanted, ",")
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("-peers: there is no peer %q; there are %s", name, strings.Join(known, ", "))
		}
	}
	return func(peer string) bool {
		return slices.Contains(names, peer) || slices.Contains(yardsticks, peer)
	}, nil
}
