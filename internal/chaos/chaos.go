package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"lazaret/internal/embedded"
	"lazaret/pkg/chain"
	"lazaret/pkg/position"
	"lazaret/streams"
)

// Options configure a chaos run.
type Options struct {
	Seed   uint64
	Kills  int // number of kills with SIGKILL; other faults are made in between
	Events int // number of events, besides those of drills
	// Processes are the processes under test: Daemons, Pair or Up.
	Processes string
	Drills    []string
	Answers   int // minimum number of verdicts that callers must receive
	Joint     int // minimum number of verdicts in joint frames (docs/architecture.md)
	Projects  int
	Dir       string // must be empty
	FullDisk  bool   // fill the disk too; needs root
	// Say is called with progress messages.
	Say func(format string, args ...any)
}

// Report is the result of a run.
type Report struct {
	Seed   uint64 `json:"seed"`
	Events int    `json:"events"` // sent, including malformed ones

	Drills   int   `json:"drills"`
	TookOver int64 `json:"took_over"` // takeovers by a standby, or by a process that a standby had replaced

	Kills      map[string]int `json:"kills"`
	Pauses     int            `json:"pauses"`
	Partitions int            `json:"partitions"`     // how often a process was disconnected from the server
	FullDisks  int            `json:"full_disks"`     // how often the disk was filled
	ClockJumps int            `json:"clock_jumps"`    // jumps of one process's wall clock, and back
	Stutters   int            `json:"stutters"`       // how often a process ran only in short bursts
	Strays     int            `json:"strays"`         // joint frames that arrived after their process was killed
	Delays     int            `json:"delays"`         // how often the entries of a process arrived late
	HalfBlocks int            `json:"half_blocks"`    // ledger blocks without a key file after a kill of the server
	Died       []string       `json:"died,omitempty"` // processes that ended by themselves and were restarted

	Acknowledged int    `json:"acknowledged"` // acknowledged events, each counted once
	Broken       int    `json:"broken"`       // acknowledged messages that are not events
	Again        int    `json:"sent_again"`   // events that the client sent again after their acknowledgment
	Entries      uint64 `json:"ledger_entries"`
	Repeats      int    `json:"repeats"`  // entries about events that were sent again
	Rejected     int    `json:"rejected"` // entries about messages that ingest rejected
	Lost         int    `json:"lost"`     // acknowledged events that are not in the ledger
	Doubled      int    `json:"doubled"`  // events that are in the ledger twice
	Altered      int    `json:"altered"`  // events whose content in the ledger differs from the published content
	Proposals    int    `json:"proposals"`
	Unanswered   int    `json:"unanswered"` // proposals without a verdict
	Unassessed   int    `json:"unassessed"` // missing assessments of required groups for proposals
	Twice        int    `json:"twice"`      // proposals with two verdicts, or two assessments of a group
	Verdicts     int    `json:"verdicts"`
	Joint        int    `json:"joint"`      // verdicts in joint frames
	Unreplayed   int    `json:"unreplayed"` // assessments and verdicts that a replay of the ledger does not give
	Answers      int    `json:"answers"`    // received by callers
	Allowed      int    `json:"allowed"`    // Answers that allow
	// AskedAgain counts, by code, the errors after which callers sent the same proposal again.
	AskedAgain map[streams.Code]int `json:"asked_again,omitempty"`
	Uncleared  int                  `json:"uncleared"` // allow verdicts in the ledger without the required assessments
	Untrue     int                  `json:"untrue"`    // answers that are not in the ledger
	Leaves     int64                `json:"leaves"`
	Root       string               `json:"root"`
	Status     string               `json:"status"`    // result of verifying the log
	Identical  bool                 `json:"identical"` // the logs of both auditors are equal

	Seconds  float64  `json:"seconds"`
	NotTried []string `json:"not_tried,omitempty"`
	Problems []string `json:"problems,omitempty"`
}

// OK reports whether the run found no problems.
func (r *Report) OK() bool { return len(r.Problems) == 0 }

func (r *Report) problem(format string, args ...any) {
	if len(r.Problems) < 20 {
		r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
	}
}

// Run disturbs a pipeline and checks its ledger and logs. The report lists the faults of the pipeline. Run
// returns an error if it could not finish.
func Run(ctx context.Context, o Options) (_ *Report, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	f := &fleet{layout: layouts[o.Processes], alone: o.Processes != Up, dir: o.Dir, at: make(map[string]string),
		procs: make(map[string]*process), ways: make(map[string]*proxy),
		clocks: make(map[string]*clock)}
	if f.programs, err = programsOf(self); err != nil {
		return nil, err
	}
	rep := &Report{Seed: o.Seed, Kills: make(map[string]int), AskedAgain: make(map[streams.Code]int)}
	var dk *disk
	if o.FullDisk {
		if dk, err = mountDisk(filepath.Join(o.Dir, "disk")); err != nil {
			rep.NotTried = append(rep.NotTried, "a full disk: "+err.Error())
		} else {
			f.dir = dk.dir
		}
	}
	defer func() { err = errors.Join(err, dk.close()) }()
	defer f.end()
	if f.addr, err = freeAddress(); err != nil {
		return nil, err
	}
	began := time.Now()
	if err := f.begin(ctx); err != nil {
		return nil, err
	}
	op, err := f.connect("operator")
	if err != nil {
		return nil, err
	}
	defer op.Close()
	if err := embedded.AwaitShipped(ctx, op); err != nil {
		return nil, err
	}
	r := &run{rep: rep, f: f, dk: dk, o: o, nc: op, l: newLoad()}
	r.l.rest.Store(int64(f.rest))
	heard, err := r.disturb(ctx)
	if err != nil {
		return nil, err
	}
	o.Say("everything is acknowledged; waiting until the stages are idle")
	settled, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	if err := complete(settled, op); err != nil {
		rep.problem("%v", err)
	}
	// A stage may still write to the ledger because of a timer. If the process's clock jumped, that can be very late.
	// So the check starts after all processes that write to the ledger have stopped.
	if err := f.quiet(settled); err != nil {
		rep.problem("%v", err)
	}
	if err := settle(settled, op); err != nil {
		rep.problem("%v", err)
	}
	a, err := read(ctx, op)
	if err != nil {
		return nil, err
	}
	rep.count(o, r.l, heard, a)
	if err := rep.replay(ctx, op, f.data(server)); err != nil {
		rep.problem("replaying the ledger: %v", err)
	}
	rep.TookOver = f.took.Load()
	overlaps := func(d string) bool { return canPause && strings.HasPrefix(d, "overlap:") }
	if rep.TookOver == 0 && slices.ContainsFunc(o.Drills, overlaps) {
		rep.problem("no stand-by took over from a paused process")
	}
	op.Close()
	if err := f.stop(ctx, "auditor/b", "auditor", server); err != nil {
		rep.problem("%v", err)
	}
	logs, err := f.logs(ctx)
	if err != nil {
		rep.problem("%v", err)
	}
	rep.audited(a, logs)
	rep.untried(f)
	rep.Seconds = time.Since(began).Seconds()
	return rep, nil
}

// untried lists the faults that the run does not make.
func (rep *Report) untried(f *fleet) {
	rep.NotTried = append(rep.NotTried, "a slow disk: instead, processes run in short bursts, so that their writes and "+
		"syncs take longer",
		"a power failure: after a kill, the operating system still writes its buffers to disk; after a power failure, "+
			"they may be lost")
	if f.noClocks != nil {
		rep.NotTried = append(rep.NotTried, "clock jumps: "+f.noClocks.Error())
	}
	if !canPause {
		rep.NotTried = append(rep.NotTried, "pauses and bursts: processes cannot be stopped and resumed here")
	}
}

// run is the state of a chaos run. It is not safe for concurrent use, except for the atomic fields and
// locks.
type run struct {
	rep   *Report
	f     *fleet
	dk    *disk
	o     Options
	nc    *nats.Conn // the operator's connection
	l     *load
	heard atomic.Int64 // answers
	feeds []chan share // one channel for each project
	ask   sync.RWMutex // read-locked by a caller during a request
}

// share is a number of events to send. If plain is set, they are only harmless observations.
type share struct {
	n     int
	plain bool
}

// projectNames returns n project names. The last project is in the partition of the first, so that messages of
// two projects compete in one partition.
func projectNames(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("chaos%d", i))
	}
	if n > 1 {
		last := &names[n-1]
		for i := n; streams.PartitionOf(*last) != streams.PartitionOf(names[0]); i++ {
			*last = fmt.Sprintf("chaos%d", i)
		}
	}
	return names
}

// disturb runs the load and the faults until everything is sent. It returns the callers' answers.
func (r *run) disturb(ctx context.Context) ([]answer, error) {
	f, l, o, rep := r.f, r.l, r.o, r.rep
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	names := projectNames(o.Projects)
	conns, err := f.agents(names, agent)
	if err != nil {
		return nil, err
	}
	// The callers are agents of their own. A malformed message affects all sessions of the agent that sent it: no
	// proposal is allowed in them, because the agent may have read content that was not judged.
	asking, err := f.agents(names[:min(f.askers, len(names))], asker)
	if err != nil {
		return nil, err
	}
	defer func() {
		for _, nc := range slices.Concat(conns, asking) {
			nc.Close()
		}
	}()
	var senders sync.WaitGroup
	for i, nc := range conns {
		feed := make(chan share, len(o.Drills)*4+1)
		r.feeds = append(r.feeds, feed)
		senders.Go(func() {
			g := newEvents(o.Seed, i, names[i])
			for s := range feed {
				g.plain = s.plain
				if err := l.send(ctx, nc, g, s.n); err != nil {
					cancel(fmt.Errorf("sending: %w", err))
					return
				}
			}
		})
	}

	var mu sync.Mutex
	var heard []answer
	until, stop := context.WithCancel(ctx)
	defer stop()
	var askers sync.WaitGroup
	for i, nc := range asking {
		askers.Go(func() {
			err := ask(until, nc, names[i], &r.ask, func(a answer) {
				mu.Lock()
				defer mu.Unlock()
				heard = append(heard, a)
				r.heard.Add(1)
			}, func(c streams.Code) {
				mu.Lock()
				defer mu.Unlock()
				rep.AskedAgain[c]++
			})
			if err != nil {
				cancel(fmt.Errorf("asking: %w", err))
			}
		})
	}
	if err := r.trouble(ctx); err != nil {
		return nil, errors.Join(context.Cause(ctx), err)
	}
	o.Say("no more faults; the rest is sent")
	sent := make(chan struct{})
	go func() { senders.Wait(); close(sent) }()
	select {
	case <-sent:
	case <-ctx.Done():
	}
	// Wait for the required answers and joint verdicts, because a run with too few of them tests nothing. On a busy
	// machine that takes long.
	for end := time.Now().Add(3 * time.Minute); ctx.Err() == nil &&
		time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		mu.Lock()
		n := len(heard)
		mu.Unlock()
		if n >= o.Answers+2*o.Joint {
			break
		}
	}
	stop()
	askers.Wait()
	return heard, context.Cause(ctx)
}

// trouble runs the drills, and then makes the other faults while the remaining events are sent.
func (r *run) trouble(ctx context.Context) error {
	for _, name := range r.o.Drills {
		if err := r.drill(ctx, name); err != nil {
			return err
		}
	}
	before := r.l.acked.Load()
	r.feed(r.o.Events, false)
	for _, c := range r.feeds {
		close(c)
	}
	return r.faults(ctx, before)
}

// revive restarts processes that ended by themselves.
func (r *run) revive(ctx context.Context) error {
	died, err := r.f.revive(ctx)
	for _, d := range died {
		r.o.Say("        ended by itself and was started again: %s", d)
	}
	r.rep.Died = append(r.rep.Died, died...)
	return err
}

// faults makes the faults, spread over the events: each waits until its share of them is acknowledged.
func (run *run) faults(ctx context.Context, before int64) error {
	rep, f, dk, o := run.rep, run.f, run.dk, run.o
	r := rand.New(rand.NewPCG(o.Seed, 0))
	all := append([]string{server}, f.names...)
	sleep := func(d time.Duration) error { return rest(ctx, d) }
	some := func(most time.Duration) time.Duration { return time.Duration(r.Int64N(int64(most))) }
	for k := range o.Kills {
		for run.l.acked.Load()-before < int64(o.Events)*int64(k)/int64(o.Kills+1) {
			if err := sleep(2 * time.Millisecond); err != nil {
				return err
			}
		}
		if err := sleep(some(120 * time.Millisecond)); err != nil {
			return err
		}
		late := ""
		switch n := r.IntN(10); {
		case n < 2:
			name, d := all[r.IntN(len(all))], 50*time.Millisecond+some(1500*time.Millisecond)
			if !canPause {
				break
			}
			o.Say("%d/%d  %s is paused for %s", k+1, o.Kills, name, d.Round(time.Millisecond))
			pause(f.procs[name].cmd.Process)
			err := sleep(d)
			resume(f.procs[name].cmd.Process)
			if err != nil {
				return err
			}
			rep.Pauses++
		case n < 4:
			name, d := f.names[r.IntN(len(f.names))], 50*time.Millisecond+some(1500*time.Millisecond)
			o.Say("%d/%d  %s is cut off for %s", k+1, o.Kills, name, d.Round(time.Millisecond))
			f.ways[name].set(true)
			err := sleep(d)
			f.ways[name].set(false)
			if err != nil {
				return err
			}
			rep.Partitions++
		case n == 5 || n == 7:
			// Draw the random numbers in any case, so that the later faults do not depend on whether
			// clocks can be set.
			name, share, d := all[r.IntN(len(all))], 2*r.Float64()-1, some(1500*time.Millisecond)
			if f.noClocks != nil {
				break
			}
			by := jumpOf(name, share)
			o.Say("%d/%d  the clock of %s jumps by %s for %s", k+1, o.Kills, name, by, d.Round(time.Millisecond))
			if err := rep.jump(f, name, by, d, sleep); err != nil {
				return err
			}
		case n == 6 || n == 8:
			name, d := all[r.IntN(len(all))], 200*time.Millisecond+some(2*time.Second)
			if !canPause {
				break
			}
			o.Say("%d/%d  %s runs in short bursts for %s", k+1, o.Kills, name, d.Round(time.Millisecond))
			if err := stutter(f.procs[name].cmd.Process, d, sleep); err != nil {
				return err
			}
			rep.Stutters++
		case n == 4:
			d := some(time.Second)
			if f.joint {
				// The delay ends only after the kill, so that entries of the killed process still arrive.
				late = f.names[r.IntN(len(f.names))]
				o.Say("%d/%d  entries of %s are up to %s late", k+1, o.Kills, late, mostDelay)
				f.ways[late].delay(mostDelay)
				rep.Delays++
				if err := sleep(d); err != nil {
					return err
				}
			}
			if dk == nil || rep.FullDisks >= max(1, o.Kills/20) {
				break
			}
			o.Say("%d/%d  the disk is full for %s", k+1, o.Kills, d.Round(time.Millisecond))
			if err := dk.fill(); err != nil {
				return err
			}
			err := sleep(d)
			if err = errors.Join(err, dk.free()); err != nil {
				return err
			}
			rep.FullDisks++
			// After a failed write, nats-server disables its streams until it is restarted, as its
			// documentation says.
			f.kill(server)
			if err := f.start(ctx, server); err != nil {
				return err
			}
		}
		err := run.killing(ctx, r, all[r.IntN(len(all))], k)
		if late != "" {
			f.ways[late].delay(0)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// killing kills a process with SIGKILL, sometimes together with its standby.
func (run *run) killing(ctx context.Context, r *rand.Rand, name string, k int) error {
	f, names := run.f, []string{name}
	if both := f.mates(name); both != nil && r.IntN(3) < f.killed {
		names = both
	}
	run.o.Say("%d/%d  kill -9 %s", k+1, run.o.Kills, strings.Join(names, " and "))
	for _, n := range names {
		f.kill(n)
	}
	run.rep.Kills[name]++
	if name == server && r.IntN(2) == 0 {
		// A kill between the creation of a block and of its key file is too rare, so its effect is simulated.
		if err := f.halfBlock(); err != nil {
			return err
		}
		run.rep.HalfBlocks++
	}
	if err := rest(ctx, time.Duration(r.Int64N(int64(100*time.Millisecond)))); err != nil {
		return err
	}
	if err := f.again(ctx, names...); err != nil {
		return err
	}
	return run.revive(ctx)
}

// Limits of clock jumps. Deadlines use the server's timestamps of messages. A timestamp from the future delays
// a deadline until that time. The server's clock therefore jumps less, so that the run need not wait long.
const (
	mostJump       = 400 * 24 * time.Hour
	mostServerJump = 30 * time.Second
)

func jumpOf(name string, share float64) time.Duration {
	most := mostJump
	if name == server {
		most = mostServerJump
	}
	return time.Duration(share * float64(most)).Round(time.Second)
}

// jump changes a process's wall clock, and after d changes it back.
func (rep *Report) jump(f *fleet, name string, by, d time.Duration, sleep func(time.Duration) error) error {
	c := f.clocks[name]
	if c == nil {
		return sleep(d) // the process ended before its clock was replaced
	}
	err := c.set(by)
	if serr := sleep(d); serr != nil {
		return serr
	}
	if err = errors.Join(err, c.set(0)); err != nil && !f.procs[name].ended() {
		return fmt.Errorf("setting the clock of %s: %w", name, err)
	}
	rep.ClockJumps++
	return nil
}

// stutter stops and resumes a process repeatedly for d, so that it runs for a tenth of the time.
func stutter(p *os.Process, d time.Duration, sleep func(time.Duration) error) error {
	defer resume(p)
	for until := time.Now().Add(d); time.Now().Before(until); {
		pause(p)
		if err := sleep(45 * time.Millisecond); err != nil {
			return err
		}
		resume(p)
		if err := sleep(5 * time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// count compares the acknowledgments and answers with the ledger.
func (rep *Report) count(o Options, l *load, heard []answer, a *account) {
	rep.Acknowledged, rep.Broken, rep.Again = len(l.ids), l.broken, l.again
	rep.Entries, rep.Repeats, rep.Rejected, rep.Verdicts = a.entries, a.repeats, a.rejected, len(a.verdicts)
	for id, c := range l.ids {
		switch {
		case a.ids[id] == 0:
			rep.Lost++
			rep.problem("%s was acknowledged but is not in the ledger", id)
		case a.contents[id] != c:
			rep.Altered++
			rep.problem("the content of %s in the ledger differs from the published content", id)
		}
	}
	unanswered, unassessed := a.missing()
	rep.Proposals, rep.Unanswered, rep.Unassessed, rep.Twice = len(a.proposals), len(unanswered), len(unassessed), len(
		a.twice)
	for _, p := range slices.Concat(unanswered, unassessed) {
		rep.problem("%s", p)
	}
	for id, n := range a.ids {
		if n > 1 {
			rep.Doubled++
			rep.problem("%s is in the ledger %d times", id, n)
		}
	}
	var most uint64
	for src, n := range a.srcs {
		most = max(most, src)
		if n > 1 {
			rep.Doubled++
			rep.problem("intake message %d gave %d ledger entries", src, n)
		}
	}
	for at, n := range a.inner {
		if n > 1 {
			rep.Doubled++
			rep.problem("event %s of partition %d gave %d entries", position.Text(at.src), at.partition, n)
		}
	}
	for src := uint64(1); src <= most; src++ {
		if a.srcs[src] == 0 {
			rep.Lost++
			rep.problem("intake message %d gave no ledger entry", src)
		}
	}
	for seq := range l.seqs {
		if a.srcs[seq] == 0 {
			rep.Lost++
			rep.problem("intake message %d was acknowledged but gave no ledger entry", seq)
		}
	}
	if rep.Joint = a.joint; rep.Joint < o.Joint {
		rep.problem("%d verdicts were decided jointly, want at least %d", rep.Joint, o.Joint)
	}
	rep.Uncleared = len(a.uncleared)
	for _, p := range slices.Concat(a.uncleared, a.twice) {
		rep.problem("%s", p)
	}
	for _, h := range heard {
		rep.Answers++
		if h.rep.Verdict == streams.Allow {
			rep.Allowed++
		}
		v := a.verdicts[h.rep.Seq]
		if v == nil || v.ID != h.id || v.Verdict != h.rep.Verdict || a.projects[h.rep.Seq] != h.project {
			rep.Untrue++
			rep.problem("the answer to %s %s is %s from entry %d, but that entry differs", h.project, h.id,
				h.rep.Verdict, h.rep.Seq)
		}
	}
	if rep.Answers < o.Answers {
		rep.problem("callers received %d answers, want at least %d", rep.Answers, o.Answers)
	}
	if rep.Allowed == 0 {
		rep.problem("none of %d answers is an allow: clearance was not tested", rep.Answers)
	}
}

// audited compares the logs with the ledger and with each other.
func (rep *Report) audited(a *account, logs [2]chain.Report) {
	rep.Status, rep.Leaves, rep.Root = string(logs[0].Status), logs[0].Size, logs[0].Root
	for i, r := range logs {
		if r.Status != chain.Verified {
			rep.Status = string(r.Status)
			rep.problem("log %d: %s %v %v", i+1, r.Status, r.Problems, r.Skipped)
		}
		if r.LastSeq != a.last || r.Entries != int64(a.entries) || r.Gaps != 0 {
			rep.problem("log %d has %d entries up to %d and %d gaps; the ledger has %d up to %d", i+1, r.Entries,
				r.LastSeq, r.Gaps, a.entries, a.last)
		}
	}
	rep.Identical = logs[0].Root == logs[1].Root && logs[0].Size == logs[1].Size && logs[0].Root != ""
	if !rep.Identical {
		rep.problem("the two logs differ: %d leaves %s, %d leaves %s", logs[0].Size, logs[0].Root, logs[1].Size, logs[1].Root)
	}
}
