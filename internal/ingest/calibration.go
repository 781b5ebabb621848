package ingest

import (
	"lazaret/internal/stage"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/calibration"
	"lazaret/streams"
)

// forecast compares the confidence of belief r with revision rv, for the calibration of the belief's class. If a person
// or a probe confirmed the belief, that counts as a success. If the belief was contradicted, that counts as a failure.
// Other revisions do not count. r is the belief before rv, and does not change.
func (f *Fold) forecast(st *stage.State, project string, r *record, rv *beliefs.Revision) error {
	if r.Ref.Class == "" || r.Ref.Quality == beliefs.SyntheticProbe || rv.Restored != nil {
		return nil
	}
	for _, m := range rv.Moves {
		if m.Axis != beliefs.AxisTruth {
			continue
		}
		held := m.To == beliefs.Supported.String() && (rv.By == beliefs.ByUser || rv.By == beliefs.ByProbe)
		if !held && m.To != beliefs.Contradicted.String() {
			continue
		}
		key := stage.Key(keyClass, project, r.Ref.Class)
		v, _, err := st.Get(key)
		if err != nil {
			return err
		}
		var w calibration.Window
		if err := w.UnmarshalBinary(v); err != nil {
			return err
		}
		w.Add(calibration.Of(r.Ref.Confidence, held))
		b, err := w.MarshalBinary()
		if err != nil {
			return err
		}
		return st.Set(key, b)
	}
	return nil
}

// AskClasses is the query for the calibration of a project's beliefs: how well their confidence predicts whether they
// are later confirmed or contradicted.
const AskClasses = "classes"

// ClassesRequest asks for the calibration classes of one project.
type ClassesRequest struct {
	Project string `json:"project"`
}

// ClassReport is the calibration of one class, computed from the latest calibration.Keep beliefs of the class that were
// confirmed or contradicted.
type ClassReport struct {
	Class string `json:"class"`
	Total uint64 `json:"total"` // number of beliefs that were ever confirmed or contradicted
	calibration.Report
}

// ClassesAnswer answers AskClasses. Classes are in alphabetical order.
type ClassesAnswer struct {
	Classes []ClassReport `json:"classes"`
}

func listClasses(st *stage.State, req []byte) (any, error) {
	var q ClassesRequest
	if err := streams.Unmarshal(req, &q); err != nil {
		return nil, err
	}
	if err := streams.CheckID("project", q.Project); err != nil {
		return nil, err
	}
	ans := &ClassesAnswer{Classes: []ClassReport{}}
	prefix := stage.Key(keyClass, q.Project, "")
	err := st.Scan(prefix, func(k, v []byte) (bool, error) {
		var w calibration.Window
		if err := w.UnmarshalBinary(v); err != nil {
			return false, err
		}
		ans.Classes = append(ans.Classes, ClassReport{Class: string(k[len(prefix):]), Total: w.Total,
			Report: calibration.Judge(w.Forecasts)})
		return true, nil
	})
	return ans, err
}
