package ingest

import (
	"fmt"
	"slices"
	"time"

	"lazaret/internal/stage"
	"lazaret/pkg/beliefs"
)

// A quarantine that names an agent, a session, a source or a tool also applies to beliefs that come in later, until its
// incident is closed, because an attacker may go on while people look at the incident. The signed order that
// quarantined the earlier beliefs also authorizes the quarantine of the later ones. A later belief that matches is
// withheld as soon as its entry introduces it. A second entry records the revision.

// maxStanding is the maximum number of quarantines of a project that apply to later beliefs. There is a limit because
// each new belief is compared with all of them.
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

// appliesLater reports whether a scope can match beliefs that come in after now. It can if it names an agent, session,
// source or tool, and its Until is zero or after now. A scope that names only beliefs or times matches only earlier
// beliefs.
func appliesLater(s *beliefs.IncidentScope, now time.Time) bool {
	return s.Agent+s.Session+s.Source+s.Tool != "" && (s.Until.IsZero() || s.Until.After(now))
}

// checkStanding returns an order error if the project already has maxStanding quarantines that apply to later beliefs,
// and the new one would apply to them too. Otherwise it returns nil.
func checkStanding(st *stage.State, project string, s *beliefs.IncidentScope, now time.Time) error {
	if !appliesLater(s, now) {
		return nil
	}
	all, err := standingOrders(st, project)
	if err == nil && len(all) >= maxStanding {
		err = orderError("%d quarantines of open incidents apply in project %s: close some of these incidents",
			len(all), project)
	}
	return err
}

// addStanding stores a quarantine if it applies to later beliefs.
func addStanding(st *stage.State, project string, o standingOrder, now time.Time) error {
	if !appliesLater(&o.Scope, now) {
		return nil
	}
	all, err := standingOrders(st, project)
	if err != nil {
		return err
	}
	return st.Put(standingKey(project), append(all, o))
}

// removeStanding removes an incident's quarantines, because the incident is closed.
func removeStanding(st *stage.State, project, incident string) error {
	all, err := standingOrders(st, project)
	if err != nil || len(all) == 0 {
		return err
	}
	if all = slices.DeleteFunc(all, func(o standingOrder) bool { return o.Incident == incident }); len(all) == 0 {
		return st.Delete(standingKey(project))
	}
	return st.Put(standingKey(project), all)
}

// recordMatches reports whether a belief matches a scope. It compares only the belief's record, which has the agent,
// session, source and tool of the first reading of the content.
func recordMatches(s *beliefs.IncidentScope, r *record) bool {
	is := func(want, have string) bool { return want == "" || want == have }
	if !is(s.Agent, r.Agent) || !is(s.Session, r.Session) || !is(s.Source, r.Ref.Source) || !is(s.Tool, r.Tool) {
		return false
	}
	came := r.came()
	return (s.Since.IsZero() || !came.Before(s.Since)) && (s.Until.IsZero() || came.Before(s.Until))
}

// applyStanding applies the quarantines of open incidents to a new belief.
func (f *Fold) applyStanding(st *stage.State, project string, r *record, at time.Time) error {
	all, err := standingOrders(st, project)
	if err != nil {
		return err
	}
	for i := range all {
		o := &all[i]
		root := recordMatches(&o.Scope, r)
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
			Why: fmt.Sprintf("it came in while incident %s was open", o.Incident)}
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
		return f.queueRevisions(st, project, becauseIncident, []beliefs.Revision{rv}, at)
	}
	return nil
}

// derivesFrom returns the id of a parent of the new belief r that the incident of o withheld, or "" if there is no such
// parent. It also returns "" if r has support that does not come from the incident, because the quarantine spared
// earlier beliefs with such support too.
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
