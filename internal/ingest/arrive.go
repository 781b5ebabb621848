package ingest

import (
	"fmt"
	"slices"
	"time"

	"lazaret/internal/stage"
	"lazaret/pkg/beliefs"
)

// A quarantine that names an agent, a session, a source or a tool also applies to later
// beliefs, until its incident is closed: an attacker goes on while people look at the
// incident. It is the same signed order, so it needs no other authority. It takes a
// belief out of service at the entry that brings it in, and a revision entry follows.

// maxStanding is the maximum number of quarantines that apply to later beliefs of a project. Each
// new belief is compared with all of them.
const maxStanding = 64

// standingOrder is a quarantine that applies to later beliefs.
type standingOrder struct {
	Incident string                `json:"incident"`
	Signer   string                `json:"signer"`
	Scope    beliefs.IncidentScope `json:"scope"`
}

func standingKey(project string) []byte { return stage.Key(keyStanding, project) }

func standingOrders(st *stage.State, project string) (all []standingOrder, err error) {
	_, err = st.Load(standingKey(project), &all)
	return all, err
}

// stands reports whether a scope can match beliefs that come in after now. It can if it names an
// agent, session, source or tool, and has no end or an end after now. A scope of beliefs or times
// alone matches earlier beliefs only.
func stands(s *beliefs.IncidentScope, now time.Time) bool {
	return s.Agent+s.Session+s.Source+s.Tool != "" && (s.Until.IsZero() || s.Until.After(now))
}

// mayStand returns why a quarantine cannot apply to later beliefs, or nil.
func mayStand(st *stage.State, project string, s *beliefs.IncidentScope, now time.Time) error {
	if !stands(s, now) {
		return nil
	}
	all, err := standingOrders(st, project)
	if err == nil && len(all) >= maxStanding {
		err = orderError("%d quarantines of open incidents apply in project %s: close some of these incidents",
			len(all), project)
	}
	return err
}

// letStand stores a quarantine that applies to later beliefs.
func letStand(st *stage.State, project string, o standingOrder, now time.Time) error {
	if !stands(&o.Scope, now) {
		return nil
	}
	all, err := standingOrders(st, project)
	if err != nil {
		return err
	}
	return st.Put(standingKey(project), append(all, o))
}

// endStanding drops an incident's quarantines.
func endStanding(st *stage.State, project, incident string) error {
	all, err := standingOrders(st, project)
	if err != nil || len(all) == 0 {
		return err
	}
	if all = slices.DeleteFunc(all, func(o standingOrder) bool { return o.Incident == incident }); len(all) == 0 {
		return st.Delete(standingKey(project))
	}
	return st.Put(standingKey(project), all)
}

// looksFor reports whether a belief matches a scope.
func looksFor(s *beliefs.IncidentScope, r *record) bool {
	is := func(want, have string) bool { return want == "" || want == have }
	if !is(s.Agent, r.Agent) || !is(s.Session, r.Session) || !is(s.Source, r.Ref.Source) || !is(s.Tool, r.Tool) {
		return false
	}
	came := r.came()
	return (s.Since.IsZero() || !came.Before(s.Since)) && (s.Until.IsZero() || came.Before(s.Until))
}

// arrived applies the standing quarantines of a project to a new belief.
func (f *Fold) arrived(st *stage.State, project string, r *record, at time.Time) error {
	all, err := standingOrders(st, project)
	if err != nil {
		return err
	}
	for i := range all {
		o := &all[i]
		root := looksFor(&o.Scope, r)
		from := ""
		if !root && (o.Scope.Descendants || o.Scope.All) {
			if from, err = f.derivesFrom(st, project, o, r); err != nil {
				return err
			}
		}
		if !root && from == "" {
			continue
		}
		_, moves, err := r.standing().Quarantine(beliefs.ByUser)
		if err != nil || len(moves) == 0 {
			return nil // the belief is already out of service
		}
		inc, err := f.incident(st, project, o.Incident)
		if err != nil || inc == nil {
			return err
		}
		if err := st.Put(append(touchedPrefix(project, o.Incident), r.Ref.ID...), &touched{Was: r.Ref.Axes, Root: root,
			Out: true}); err != nil {
			return err
		}
		rv := beliefs.Revision{Belief: r.Ref.ID, Moves: moves, By: beliefs.ByUser, Who: o.Signer, Other: from, At: at,
			Why: fmt.Sprintf("it came in while incident %s is not closed", o.Incident)}
		if err := f.revise(st, project, &rv); err != nil {
			return err
		}
		if root && r.Ref.Kind != beliefs.Envelope {
			if err := f.bury(st, project, r, buriedQuarantined, at); err != nil {
				return err
			}
		}
		if root {
			inc.Report.Found++
		} else {
			inc.Report.Descendants++
		}
		inc.Report.Quarantined++
		if err := f.keepIncident(st, project, inc); err != nil {
			return err
		}
		return f.owe(st, project, becauseIncident, []beliefs.Revision{rv}, at)
	}
	return nil
}

// derivesFrom returns a parent of a new belief that an incident took out of service. It returns ""
// if there is none. It also returns "" if the new belief has support that does not come from the
// incident: the order spares earlier beliefs for the same reason.
func (f *Fold) derivesFrom(st *stage.State, project string, o *standingOrder, r *record) (from string, err error) {
	sources, events := map[string]bool{}, map[string]bool{}
	for _, p := range r.Parents {
		ids := []string{p.ID}
		if p.Agent != "" {
			if ids, err = broughtBy(st, project, parentKey(p)); err != nil {
				return "", err
			}
		}
		for _, id := range ids {
			t := new(touched)
			ok, err := st.Load(append(touchedPrefix(project, o.Incident), id...), t)
			if err != nil {
				return "", err
			}
			if !ok || !t.Out || t.Back {
				continue
			}
			was, err := f.belief(st, project, id)
			if err != nil {
				return "", err
			}
			if was != nil {
				sources[was.Ref.Source], events[was.Agent+"/"+was.Ref.Observation] = true, true
			}
			if from == "" {
				from = id
			}
		}
	}
	if from != "" && !o.Scope.All && r.independent(sources, events) != "" {
		return "", nil
	}
	return from, nil
}
