package file

import (
	"context"
	"encoding/json"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/localfile"
	"github.com/courierhq/courier/internal/stepcontext"
)

// A movePlan is the first line of the journal of file.move.
type movePlan struct {
	Source      string        `json:"source"`
	Destination string        `json:"destination"`
	Pattern     bool          `json:"pattern,omitempty"`
	Attempt     int           `json:"attempt"` // of the execution
	Items       []plannedMove `json:"items"`
}

// A plannedMove is one file of the plan.
type plannedMove struct {
	Source string             `json:"source"`
	Target string             `json:"target"`
	Was    localfile.Identity `json:"was"`
	// Own is the file that an earlier attempt of the execution has put at Target. It is not a
	// file of others.
	Own localfile.Identity `json:"own,omitzero"`
}

// A moveMark is a further line: the new state of one file of the plan.
type moveMark struct {
	Item   int                `json:"item"`
	State  string             `json:"state,omitempty"`
	Was    localfile.Identity `json:"was"`
	Copied localfile.Identity `json:"copied"`
	Side   string             `json:"side,omitempty"` // where the copy is until it is published
}

// fits reports whether the plan was made for the paths in cfg.
func (p *movePlan) fits(cfg MoveConfig) bool {
	return p.Source == cfg.SourcePath.String() && p.Destination == cfg.DestinationPath
}

// moveLog is the content of the journal.
type moveLog struct {
	plan  movePlan
	marks map[int]moveMark // the last of each item
}

// readMoves returns what earlier attempts wrote to the journal, or nil if it is empty.
func readMoves(j *journal) (*moveLog, error) {
	if len(j.lines) == 0 {
		return nil, nil
	}
	log := &moveLog{marks: make(map[int]moveMark)}
	if err := json.Unmarshal(j.lines[0], &log.plan); err != nil {
		return nil, err
	}
	for _, line := range j.lines[1:] {
		var mark moveMark
		if err := json.Unmarshal(line, &mark); err != nil {
			return nil, err
		}
		log.marks[mark.Item] = mark
	}
	return log, nil
}

// resume continues the plan of an earlier attempt, or makes a new plan. The caller closes the
// journal.
func (m Move) resume(ctx context.Context, job *courier.Context, cfg MoveConfig) (*mover, error) {
	j, err := openJournal(ctx, job, "move")
	if err != nil {
		return nil, err
	}
	v := &mover{Move: m, job: job, cfg: cfg, journal: j}
	log, err := readMoves(j)
	if err == nil && (log == nil || !log.plan.fits(cfg)) {
		log, err = v.plan(ctx)
	} else if err == nil && log.plan.Attempt < job.ExecutionAttempt() {
		log, err = v.renew(ctx, log)
	}
	if err == nil {
		err = v.load(log)
	}
	if err != nil {
		j.Close()
		return nil, err
	}
	return v, nil
}

// Cleanup removes unfinished copies. Finished ones stay, since only a further attempt can decide
// whether their sources may be removed.
func (m Move) Cleanup(ctx context.Context, job *courier.Context, cfg MoveConfig) error {
	j, err := openJournal(ctx, job, "move")
	if err != nil {
		return err
	}
	defer j.Close()
	log, err := readMoves(j)
	if err != nil || log == nil || !log.plan.fits(cfg) {
		return err // nothing has been written yet
	}
	v := &mover{Move: m, job: job, cfg: cfg, journal: j}
	if err := v.load(log); err != nil {
		return err
	}
	for i := range v.items {
		it := &v.items[i]
		if it.state != waiting {
			continue
		}
		if left, err := it.sideLeft(); err != nil {
			return err
		} else if left {
			if err := v.withdraw(it); err != nil {
				return err
			}
		}
		if err := job.Files().RemoveSideFiles(it.dst.name); err != nil {
			return localfile.Error(it.dst.name, err)
		}
	}
	return nil
}

// sideLeft reports whether a copy exists that was to be published but was not.
func (it *move) sideLeft() (bool, error) {
	if it.side.root == nil {
		return false, nil
	}
	return it.side.exists()
}

// plan decides what to move and writes it to the journal. With nothing to move it writes nothing.
func (m *mover) plan(ctx context.Context) (*moveLog, error) {
	pairs, pattern, err := m.cfg.request().plan(ctx, m.job, m.Limits.withDefaults())
	if err != nil {
		return nil, err
	}
	log := &moveLog{plan: movePlan{Source: m.cfg.SourcePath.String(), Destination: m.cfg.DestinationPath, Pattern: pattern, Attempt: m.job.ExecutionAttempt()}}
	for _, p := range pairs {
		log.plan.Items = append(log.plan.Items, plannedMove{Source: p.src.name, Target: p.dst.name, Was: localfile.Identify(p.src.info)})
	}
	if len(pairs) == 0 {
		return log, nil
	}
	m.effect("plan")
	return log, m.journal.start(log.plan)
}

// renew adapts the plan of an earlier attempt of the execution to this one. Files that the job
// has made again are moved again, even onto the files moved then. The rest of the plan does not
// change.
func (m *mover) renew(ctx context.Context, log *moveLog) (*moveLog, error) {
	r := m.cfg.request()
	r.ignoreMissing = true
	pairs, _, err := r.plan(ctx, m.job, m.Limits.withDefaults())
	if err != nil {
		return nil, err
	}
	known := make(map[string]int)
	for i, it := range log.plan.Items {
		known[it.Source] = i
	}
	log.plan.Attempt = m.job.ExecutionAttempt()
	for _, p := range pairs {
		again := plannedMove{Source: p.src.name, Target: p.dst.name, Was: localfile.Identify(p.src.info)}
		i, planned := known[p.src.name]
		if planned && log.was(i) == again.Was {
			continue // it was not moved, or goes on being copied
		}
		if remade, err := stepcontext.Of(m.job).Remade(p.src.name); err != nil {
			return nil, err
		} else if !remade {
			m.job.Log().Warn("a file has come since an earlier attempt of the execution has moved what was to be moved; it stays", "path", p.src.name)
			continue
		}
		if !planned {
			log.plan.Items = append(log.plan.Items, again)
			continue
		}
		again.Own = log.own(i)
		log.plan.Items[i] = again
		delete(log.marks, i)
	}
	lines := []any{log.plan}
	for _, mark := range log.marks {
		lines = append(lines, mark)
	}
	return log, m.journal.start(lines...)
}

// was returns the identity of an item's source when it was last looked at.
func (log *moveLog) was(i int) localfile.Identity {
	if mark, ok := log.marks[i]; ok {
		return mark.Was
	}
	return log.plan.Items[i].Was
}

// own returns the identity of an item at its target.
func (log *moveLog) own(i int) localfile.Identity {
	mark := log.marks[i]
	switch {
	case mark.State == skipped:
		return localfile.Identity{}
	case mark.Copied != localfile.Identity{}:
		return mark.Copied
	}
	return log.was(i)
}

// load turns the journal into the files to be moved.
func (m *mover) load(log *moveLog) error {
	m.pattern = log.plan.Pattern
	for i, it := range log.plan.Items {
		src, err := at(m.job, it.Source)
		if err != nil {
			return err
		}
		dst, err := at(m.job, it.Target)
		if err != nil {
			return err
		}
		v := move{index: i, src: src, dst: dst, was: it.Was, own: it.Own}
		if mark, ok := log.marks[i]; ok {
			v.state, v.was, v.copied = mark.State, mark.Was, mark.Copied
			if mark.Side != "" {
				if v.side, err = at(m.job, mark.Side); err != nil {
					return err
				}
			}
		}
		m.items = append(m.items, v)
	}
	return nil
}

// mark writes the state of a file to the journal.
func (m *mover) mark(it *move, durable bool) error {
	return m.journal.add(moveMark{Item: it.index, State: it.state, Was: it.was, Copied: it.copied, Side: it.side.name}, durable)
}

// withdraw removes the note that a copy is about to be published, before its side file is
// removed. Otherwise the missing side file would mean that the copy was published.
func (m *mover) withdraw(it *move) error {
	it.copied, it.side = localfile.Identity{}, place{}
	return m.mark(it, true)
}
