package probe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"lazaret/internal/wire"
	"lazaret/streams"
)

// Options configure a run of scenarios.
type Options struct {
	// Contrast runs each scenario a second time, without the defense that it names.
	Contrast bool
	// Parallel is the number of concurrent scenarios per pipeline; zero means 8. Pipelines is the
	// number of concurrent pipelines; zero means 2.
	Parallel, Pipelines int
	// Running is an existing pipeline to use; nil means to start new ones.
	Running *Running
}

// Running is an existing pipeline with its data folder.
type Running struct {
	Data     string
	Operator *nats.Conn // a connection with this role; closed at the end of the run
}

// Result is the result of a scenario.
type Result struct {
	Name    string `json:"name"`
	Asserts string `json:"asserts"`
	// Verdict is pass, fail or skipped. Failed has the failed assertions, and Skipped the reason for
	// skipping.
	Verdict string   `json:"verdict"`
	Failed  []string `json:"failed,omitzero"`
	Skipped string   `json:"skipped,omitzero"`
	// Contrast is set in contrast mode: failed (as required), passed (the scenario also passes without the defense, so
	// it does not test the defense) or none (the scenario has no contrast). Shown has the assertions that failed
	// without the defense.
	Contrast string   `json:"contrast,omitzero"`
	Off      string   `json:"off,omitzero"`
	Shown    []string `json:"shown,omitzero"`
	Took     int64    `json:"took_ms"`
}

// The values of Result.
const (
	Pass    = "pass"
	Fail    = "fail"
	Skipped = "skipped"

	ContrastFailed = "failed"
	ContrastPassed = "passed"
	ContrastNone   = "none"
)

// Bad reports whether the result makes the run fail.
func (r *Result) Bad() bool { return r.Verdict == Fail || r.Contrast == ContrastPassed }

// scenarioTime is the timeout of one run of one scenario.
const scenarioTime = 2 * time.Minute

// job is one run of a scenario, with the result to fill in.
type job struct {
	s      *Scenario
	off    *Contrast
	result *Result
}

// group has the jobs of one pipeline.
type group struct {
	settings settings
	jobs     []job
}

// Run runs scenarios; those with the same settings share a pipeline. The results are in the order of
// the scenarios. An error means that a pipeline could not be run.
func Run(ctx context.Context, scenarios []*Scenario, o Options) ([]*Result, error) {
	if o.Parallel <= 0 {
		o.Parallel = 8
	}
	if o.Pipelines <= 0 {
		o.Pipelines = 2
	}
	if o.Contrast && o.Running != nil {
		return nil, errors.New("contrast cannot switch off a defence of a running pipeline: run it without --running")
	}
	var excepted []byte
	if ex := slices.DeleteFunc(slices.Clone(scenarios), func(s *Scenario) bool {
		return s.Contrast == nil || len(s.Contrast.Rules) == 0
	}); o.Contrast && len(ex) > 0 {
		var err error
		if excepted, err = rulesWithout(ex); err != nil {
			return nil, err
		}
	}
	results := make([]*Result, len(scenarios))
	var groups []*group
	byKey := map[string]*group{}
	add := func(s *Scenario, off *Contrast, r *Result) error {
		set, key, err := s.settings(off, excepted)
		if err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
		g := byKey[key]
		if g == nil {
			g = &group{settings: set}
			byKey[key] = g
			groups = append(groups, g)
		}
		g.jobs = append(g.jobs, job{s, off, r})
		return nil
	}
	for i, s := range scenarios {
		r := &Result{Name: s.Name, Asserts: strings.TrimSpace(s.Asserts), Verdict: Skipped}
		results[i] = r
		if why := s.unfit(o.Running); why != "" {
			r.Skipped = why
			continue
		}
		if err := add(s, nil, r); err != nil {
			return nil, err
		}
		if !o.Contrast {
			continue
		}
		if s.Contrast == nil {
			r.Contrast = ContrastNone
			continue
		}
		r.Off = s.Contrast.Off
		if err := add(s, s.Contrast, r); err != nil {
			return nil, err
		}
	}
	var mu sync.Mutex // guards the results
	pipelines, ctx := errgroup.WithContext(ctx)
	pipelines.SetLimit(o.Pipelines)
	for _, g := range groups {
		pipelines.Go(func() (err error) {
			at, err := o.site(ctx, g.settings)
			if err != nil {
				return fmt.Errorf("starting a pipeline for %s: %w", g.jobs[0].s.Name, err)
			}
			defer func() { err = errors.Join(err, at.close()) }()
			var jobs errgroup.Group
			jobs.SetLimit(o.Parallel)
			for _, j := range g.jobs {
				jobs.Go(func() error {
					j.run(ctx, at, &mu)
					return nil
				})
			}
			return jobs.Wait()
		})
	}
	err := pipelines.Wait()
	for _, r := range results {
		if r.Verdict == Fail {
			r.Contrast, r.Shown = "", nil // the scenario fails with the defense too, so its contrast proves nothing
		}
	}
	return results, err
}

func (j job) run(ctx context.Context, at *site, mu *sync.Mutex) {
	ctx, cancel := context.WithTimeout(ctx, scenarioTime)
	defer cancel()
	start := time.Now()
	failed, err := j.s.run(ctx, at, j.off)
	mu.Lock()
	defer mu.Unlock()
	r := j.result
	if j.off == nil {
		r.Took, r.Verdict, r.Failed = time.Since(start).Milliseconds(), Pass, failed
		if err != nil {
			r.Failed = append(r.Failed, "could not be run: "+err.Error())
		}
		if len(r.Failed) > 0 {
			r.Verdict = Fail
		}
		return
	}
	// A run that breaks off, or fails in another step, does not prove the contrast.
	r.Contrast, r.Shown = ContrastPassed, failed
	if slices.ContainsFunc(failed, func(f string) bool { return strings.HasPrefix(f, "step "+j.off.Fails+": ") }) {
		r.Contrast = ContrastFailed
	} else if err != nil {
		r.Shown = append(r.Shown, "could not be run: "+err.Error())
	}
}

// settings returns the settings of the pipeline that a scenario needs, and a key that is equal for
// scenarios that can share a pipeline. excepted is the rule set with the exceptions of all contrasts.
func (s *Scenario) settings(off *Contrast, excepted []byte) (set settings, key string, err error) {
	var patch map[string]any
	if off != nil {
		patch, set.trust, set.erase = off.Policy, off.Trust, off.Erase
		set.rules = excepted // nil: the shipped rules
	}
	if set.policy, err = policyWith(s.Policy, patch); err != nil {
		return set, "", err
	}
	key = fmt.Sprint(streams.Digest(set.policy), set.trust, set.erase)
	if s.needsOwnPipeline() {
		key += " " + s.Name
	}
	if off != nil {
		key += " off" // both runs use the same project names
	}
	return set, key, nil
}

// unfit returns the reason why a scenario cannot run on an existing pipeline, or "".
func (s *Scenario) unfit(r *Running) string {
	switch {
	case r == nil:
		return ""
	case s.needsOwnPipeline():
		return "it restarts the pipeline or signs a policy: run it without --running"
	case s.Policy != nil:
		return "it needs a policy of its own: run it without --running"
	case s.reads():
		return "it exports the whole log: run it without --running"
	case s.signs():
		return "people sign in it: run it without --running"
	}
	return ""
}

func (o Options) site(ctx context.Context, set settings) (*site, error) {
	r := o.Running
	if r == nil {
		return newSite(ctx, set)
	}
	s := &site{data: r.Data, url: r.Operator.ConnectedUrl(), op: r.Operator,
		tag: "-" + strconv.FormatInt(time.Now().Unix(), 36)}
	st, err := wire.JetStream(r.Operator).Stream(ctx, streams.LedgerStream)
	if err != nil {
		return nil, err
	}
	s.ledger, err = follow(ctx, r.Operator, st.CachedInfo().State.LastSeq, isProbe)
	return s, err
}
