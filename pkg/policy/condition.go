package policy

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/ext"
	"github.com/go-json-experiment/json"
)

const (
	// conditionCost is the cost limit of one evaluation, in CEL's units: about one for each
	// operation and one for each ten bytes of compared text.
	conditionCost = 20_000
	// conditionSize is the maximum length of a condition, in bytes.
	conditionSize = 4 << 10
)

// The variables of conditions.
const (
	varTool    = "tool"    // string: the tool's name as called
	varWords   = "words"   // list(string): the words of the name in lower case
	varArgs    = "args"    // dyn: the arguments; an empty map if there are none
	varProject = "project" // string
	varAgent   = "agent"   // string
	varShell   = "shell"   // string: the kind of the command line in args.command, see shellKind
	// bool: whether the arguments name a file that programs run or read as settings, see settingsNamed
	varSettings = "settings"
)

// conditionEnv is the typed CEL environment of conditions. It fails only if this file has a fault.
var conditionEnv = sync.OnceValues(func() (*cel.Env, error) {
	base, err := types.NewRegistry()
	if err != nil {
		return nil, err
	}
	return cel.NewEnv(
		cel.CustomTypeAdapter(orderedAdapter{base}),
		cel.Variable(varTool, cel.StringType),
		cel.Variable(varWords, cel.ListType(cel.StringType)),
		cel.Variable(varArgs, cel.DynType),
		cel.Variable(varProject, cel.StringType),
		cel.Variable(varAgent, cel.StringType),
		cel.Variable(varShell, cel.StringType),
		cel.Variable(varSettings, cel.BoolType),
		cel.CrossTypeNumericComparisons(true),
		cel.ParserExpressionSizeLimit(conditionSize),
		ext.Strings(),
	)
})

// compileCondition checks a condition's syntax and types.
func compileCondition(src string) (cel.Program, error) {
	env, err := conditionEnv()
	if err != nil {
		return nil, err
	}
	ast, issues := env.Compile(src)
	if err := issues.Err(); err != nil {
		return nil, errors.New(strings.TrimSpace(strings.ReplaceAll(err.Error(), "<input>:", "")))
	}
	if !ast.OutputType().IsExactType(cel.BoolType) {
		return nil, fmt.Errorf("the condition is of type %s, want bool: add a comparison", ast.OutputType())
	}
	return env.Program(ast, cel.CostLimit(conditionCost))
}

// call holds the variables of conditions. It decodes the arguments once, when the first condition
// is evaluated.
type call struct {
	tool, project, agent string
	raw                  []byte // arguments

	vars map[string]any
	err  error
}

func (c *call) variables() (map[string]any, error) {
	if c.vars != nil || c.err != nil {
		return c.vars, c.err
	}
	var args any = map[string]any{}
	if len(c.raw) > 0 {
		if err := json.Unmarshal(c.raw, &args); err != nil {
			c.err = errors.New("the arguments are not JSON, or name a key twice")
			return nil, c.err
		}
	}
	name := parseName(c.tool, nil, nil)
	words := make([]string, len(name.words))
	for i, w := range name.words {
		words[i] = string(name.text(w))
	}
	c.vars = map[string]any{varTool: c.tool, varWords: words, varArgs: args, varProject: c.project, varAgent: c.agent,
		varShell: shellKind(args), varSettings: settingsNamed(args)}
	return c.vars, nil
}

// holds evaluates a condition.
func (c *call) holds(p cel.Program) (bool, error) {
	vars, err := c.variables()
	if err != nil {
		return false, err
	}
	out, _, err := p.Eval(vars)
	if err != nil {
		return false, err
	}
	met, ok := out.Value().(bool)
	if !ok {
		return false, fmt.Errorf("the condition's value is of type %s, want bool", out.Type().TypeName())
	}
	return met, nil
}

// orderedAdapter makes conditions iterate over the keys of JSON objects in a fixed order. A
// comprehension that ends early then has the same cost every time.
type orderedAdapter struct{ types.Adapter }

func (a orderedAdapter) NativeToValue(v any) ref.Val {
	switch v := v.(type) {
	case map[string]any:
		return orderedMap{types.NewStringInterfaceMap(a, v), types.NewStringList(a, slices.Sorted(maps.Keys(v)))}
	case []any:
		return types.NewDynamicList(a, v)
	}
	return a.Adapter.NativeToValue(v)
}

type orderedMap struct {
	traits.Mapper
	keys traits.Lister
}

func (m orderedMap) Iterator() traits.Iterator { return m.keys.Iterator() }
