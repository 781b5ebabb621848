package policy

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/ext"

	"lazaret/pkg/beliefs"
	"lazaret/pkg/internal/strictyaml"
	"lazaret/streams"
)

// MaxConditions is the maximum number of conditions for one purpose.
const MaxConditions = 32

// contextConditionText is an operator's condition on served beliefs.
type contextConditionText struct {
	Name    string `yaml:"name"`
	Require string `yaml:"require"`
	// Otherwise is refuse (default) or context_only.
	Otherwise string `yaml:"otherwise"`
}

// contextVariables are the variables of context conditions. Times are ledger time. belief.score is
// -1 if there is none.
var contextVariables = map[string]*cel.Type{
	"belief.id": cel.StringType, "belief.key": cel.StringType, "belief.category": cel.StringType,
	"belief.source": cel.StringType,
	"belief.agent":  cel.StringType, "belief.session": cel.StringType, "belief.origin": cel.StringType,
	"belief.external": cel.BoolType,
	"belief.quality":  cel.StringType, "belief.confidence": cel.DoubleType, "belief.score": cel.DoubleType,
	"belief.truth":       cel.StringType,
	"belief.sensitivity": cel.StringType, "belief.remembered": cel.BoolType, "belief.age": cel.DurationType,
	"recall.agent": cel.StringType, "recall.session": cel.StringType, "recall.purpose": cel.StringType,
}

var contextEnv = sync.OnceValues(func() (*cel.Env, error) {
	opts := []cel.EnvOption{cel.CrossTypeNumericComparisons(true), cel.ParserExpressionSizeLimit(conditionSize),
		ext.Strings()}
	for name, typ := range contextVariables {
		opts = append(opts, cel.Variable(name, typ))
	}
	return cel.NewEnv(opts...)
})

// contextSubject provides the values of the variables. It implements cel.Activation.
type contextSubject struct{ *beliefs.Subject }

func (contextSubject) Parent() cel.Activation { return nil }

func (s contextSubject) ResolveName(name string) (any, bool) {
	switch name {
	case "belief.id":
		return s.ID, true
	case "belief.key":
		return s.Key, true
	case "belief.category":
		return s.Category, true
	case "belief.source":
		return s.Source, true
	case "belief.agent":
		return s.Candidate.Agent, true
	case "belief.session":
		return s.Candidate.Session, true
	case "belief.origin":
		return string(s.Origin), true
	case "belief.external":
		return s.Origin.External(), true
	case "belief.quality":
		return s.Quality.String(), true
	case "belief.confidence":
		return s.Confidence, true
	case "belief.score":
		return s.Score, true
	case "belief.truth":
		return s.Axes.Truth.String(), true
	case "belief.sensitivity":
		return s.Sensitivity.String(), true
	case "belief.remembered":
		return !s.Read, true
	case "belief.age":
		return max(0, s.Now.Sub(s.At)), true
	case "recall.agent":
		return s.Subject.Agent, true
	case "recall.session":
		return s.Subject.Session, true
	case "recall.purpose":
		return s.Purpose, true
	}
	return nil, false
}

func compileContextConditions(y *strictyaml.Document, path []any, texts []contextConditionText) ([]beliefs.Condition,
	error) {
	at := func(rest ...any) []any { return append(append([]any(nil), path...), rest...) }
	if len(texts) > MaxConditions {
		return nil, y.Errorf(path, "%d conditions are too many, at most %d are possible", len(texts), MaxConditions)
	}
	env, err := contextEnv()
	if err != nil {
		return nil, err
	}
	seen := make(map[string]bool)
	var out []beliefs.Condition
	for i, t := range texts {
		if err := streams.CheckID("condition", t.Name); err != nil {
			return nil, y.Errorf(at(i, "name"), "%w", err)
		}
		if seen[t.Name] {
			return nil, y.Errorf(at(i, "name"), "condition %q is listed twice", t.Name)
		}
		seen[t.Name] = true
		c := beliefs.Condition{Name: t.Name}
		switch t.Otherwise {
		case "", "refuse":
		case "context_only":
			c.ContextOnly = true
		default:
			return nil, y.Errorf(at(i, "otherwise"),
				"`otherwise` of condition %s is %q: use refuse or context_only", t.Name, t.Otherwise)
		}
		ast, issues := env.Compile(t.Require)
		if err := issues.Err(); err != nil {
			return nil, y.Errorf(at(i, "require"), "`require` of condition %s: %w", t.Name,
				errors.New(strings.TrimSpace(strings.ReplaceAll(err.Error(), "<input>:", ""))))
		}
		if !ast.OutputType().IsExactType(cel.BoolType) {
			return nil, y.Errorf(at(i, "require"),
				"`require` of condition %s is of type %s, want bool: add a comparison", t.Name, ast.OutputType())
		}
		prg, err := env.Program(ast, cel.CostLimit(conditionCost))
		if err != nil {
			return nil, y.Errorf(at(i, "require"), "`require` of condition %s: %w", t.Name, err)
		}
		c.Holds = func(s beliefs.Subject) (bool, error) {
			v, _, err := prg.Eval(contextSubject{&s})
			if err != nil {
				return false, err
			}
			ok, is := v.Value().(bool)
			if !is {
				return false, fmt.Errorf("its value is of type %s, want bool", v.Type().TypeName())
			}
			return ok, nil
		}
		out = append(out, c)
	}
	return out, nil
}
