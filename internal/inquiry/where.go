package inquiry

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/vm"

	"lazaret/streams"
)

// Where selects entries by an expression over their JSON fields, in the language Expr (github.com/expr-lang/expr). body
// is the entry's body; its fields may be missing.
type Where struct {
	program *vm.Program
	body    bool // the expression needs payloads
}

// NewWhere compiles an expression; an empty one matches everything.
func NewWhere(src string) (*Where, error) {
	if src == "" {
		return &Where{}, nil
	}
	p, err := expr.Compile(src, expr.Env(entryEnv(&Entry{})), expr.AsBool())
	if err != nil {
		return nil, fmt.Errorf("--where: %w", err)
	}
	return &Where{p, needsPayload(src)}, nil
}

// needsPayload reports whether an expression may use fields that only payloads contain.
func needsPayload(src string) bool {
	for _, name := range []string{"body", "stage", "src", "at", "agent", "session", "id", "forgotten", "not_held"} {
		if strings.Contains(src, name) {
			return true
		}
	}
	return false
}

// entryEnv returns the fields of an entry for expressions.
func entryEnv(e *Entry) map[string]any {
	env := map[string]any{
		"index": float64(e.Index), "seq": float64(e.Seq), "time": e.Time.Format("2006-01-02T15:04:05.000000000Z07:00"),
		"kind": e.Kind, "type": e.Type, "project": e.Project,
		"stage": e.Stage, "src": float64(e.Src), "at": float64(e.At), "agent": e.Agent, "session": e.Session, "id": e.ID,
		"bytes": float64(e.Bytes), "commitment": e.Commitment, "forgotten": e.Forgotten, "not_held": e.NotHeld,
		"covered": e.Covered, "body": map[string]any{},
	}
	if len(e.Body) > 0 && e.Body.Kind() == '{' {
		m := make(map[string]any)
		if streams.Unmarshal(e.Body, &m) == nil {
			env["body"] = m
		}
	}
	return env
}

// Match reports whether the expression is true for an entry.
func (w *Where) Match(e *Entry) (bool, error) {
	if w.program == nil {
		return true, nil
	}
	v, err := expr.Run(w.program, entryEnv(e))
	if err != nil {
		return false, fmt.Errorf("--where, on log entry %d: %w", e.Index, err)
	}
	ok, _ := v.(bool)
	return ok, nil
}

// Tally evaluates an expression over the list of entries, such as
//
//	counts(groupBy(entries, .type))
//
// with Expr's count, sum, mean, median, min, max, groupBy and sortBy. counts replaces each list in a
// map by its length.
func Tally(src string, entries []*Entry) (any, error) {
	list := make([]map[string]any, len(entries))
	for i, e := range entries {
		list[i] = entryEnv(e)
	}
	p, err := expr.Compile(src, expr.Env(map[string]any{"entries": list}), expr.Function("counts", counts))
	if err != nil {
		return nil, fmt.Errorf("--tally: %w", err)
	}
	v, err := expr.Run(p, map[string]any{"entries": list})
	if err != nil {
		return nil, fmt.Errorf("--tally: %w", err)
	}
	return jsonable(reflect.ValueOf(v)), nil
}

// jsonable converts maps with keys of any type to maps with string keys.
func jsonable(v reflect.Value) any {
	for v.IsValid() && (v.Kind() == reflect.Interface || v.Kind() == reflect.Pointer) {
		if v.IsNil() {
			return nil
		}
		v = v.Elem()
	}
	if !v.IsValid() {
		return nil
	}
	switch v.Kind() {
	case reflect.Map:
		m := make(map[string]any, v.Len())
		for it := v.MapRange(); it.Next(); {
			m[fmt.Sprint(it.Key().Interface())] = jsonable(it.Value())
		}
		return m
	case reflect.Slice, reflect.Array:
		s := make([]any, v.Len())
		for i := range s {
			s[i] = jsonable(v.Index(i))
		}
		return s
	}
	return v.Interface()
}

func counts(args ...any) (any, error) {
	if len(args) != 1 || reflect.ValueOf(args[0]).Kind() != reflect.Map {
		return nil, errors.New("counts() takes one argument: a map of lists, such as groupBy returns")
	}
	out := make(map[string]any)
	for it := reflect.ValueOf(args[0]).MapRange(); it.Next(); {
		v := reflect.ValueOf(it.Value().Interface())
		if v.Kind() != reflect.Slice {
			return nil, errors.New("counts() takes one argument: a map of lists, such as groupBy returns")
		}
		out[fmt.Sprint(it.Key().Interface())] = v.Len()
	}
	return out, nil
}
