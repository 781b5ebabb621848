package shell

import (
	"regexp"
	"strings"
)

// noCommand reports whether an operand is one that less and more do not run as a command of their own.
func noCommand(s string) bool { return !strings.HasPrefix(s, "+") }

// tests are the permitted options of the program test. -v and -R are not permitted, because they evaluate the name of a
// variable.
var tests = set("e f d h L s r w x p S b c g k u O G N n z t a o eq ne lt le gt ge nt ot ef")

// noFormula reports whether a word of the program test contains nothing that a shell may evaluate.
func noFormula(s string) bool { return !strings.ContainsAny(s, "$`") }

// reading reports whether a script of sed only prints or changes its input. Such a script reads no file, writes no file
// and runs no program.
func reading(script string) bool {
	from, to, two := strings.Cut(script, ",")
	if two && strings.HasPrefix(from, "/") && strings.HasSuffix(from, "/") && len(from) > 1 {
		return plainSed(from+"p") && plainSed(to) // from one pattern to another
	}
	return plainSed(script) || strings.TrimLeft(script, "0123456789$") == "q"
}

// writesAs reports whether an operand of sed is a script that writes a file of another name than the operand's. On
// macOS, the word after -i is a suffix, and the next one is the script.
func writesAs(operand string) bool {
	s := strings.TrimLeft(operand, "0123456789$,! ")
	if strings.ContainsAny(s, ";{}\n\\") {
		return true
	}
	if len(s) > 2 && s[0] == 's' { // s/a/b/w file
		if parts := strings.SplitN(s[2:], s[1:2], 3); len(parts) == 3 {
			s = strings.TrimLeft(parts[2], "0123456789gpiIMe")
		}
	}
	if s == "" || s[0] != 'w' && s[0] != 'W' {
		return false
	}
	to := strings.TrimLeft(s[1:], " \t")
	return !written(to) || secret(to) || IsMemoryFile(to)
}

// counters are the programs that xargs may run with the names of any files.
var counters = set("grep egrep fgrep wc ls stat du basename dirname")

// lookers are the programs that only look at files, with their permitted options.
var lookers = func() map[string]*options {
	m := map[string]*options{
		"sort": {short: "bdfgiMhnRrVcCmsuzk:t:S:", long: set(`ignore-leading-blanks dictionary-order ignore-case
			general-numeric-sort ignore-nonprinting month-sort human-numeric-sort numeric-sort random-sort reverse sort
			version-sort check merge stable unique zero-terminated key field-separator parallel debug`)},
		"uniq": {short: "cdDuizf:s:w:", max: 1, long: set(`count repeated all-repeated group ignore-case skip-fields
			skip-chars unique zero-terminated check-chars`)},
		"tree": {short: "adfilshDpugLPINQqxCnFJXrtvcSA", numbers: true, long: set(`dirsfirst filesfirst noreport gitignore
			prune du si sort matchdirs ignore-case filelimit charset inodes device timefmt metafirst version help`)},
		"rg": {short: "inNlLcvwxoqsSFPUHIhuaVp.0A:B:C:e:f:g:t:T:m:r:j:d:M:E:", long: set(`ignore-case line-number
			no-line-number files-with-matches files-without-match follow count count-matches invert-match word-regexp
			line-regexp only-matching quiet case-sensitive smart-case fixed-strings pcre2 multiline multiline-dotall
			with-filename no-filename hidden no-ignore no-ignore-vcs unrestricted text version pretty null null-data
			after-context before-context context regexp file glob iglob type type-not type-list max-count replace threads
			max-depth max-columns encoding color colors heading no-heading column no-messages json stats sort sortr files trim
			vimgrep passthru byte-offset crlf one-file-system max-filesize debug no-config max-columns-preview`)},
		"date": {short: "uRI;d:r:v:", long: set("date utc universal iso-8601 rfc-3339 rfc-email reference help version"),
			operand: func(s string) bool { return strings.HasPrefix(s, "+") }}, // other operands set the clock
		"file": {short: "biLhkNr0EvF:", long: set(`brief mime mime-type mime-encoding dereference no-dereference keep-going
			no-pad raw print0 separator extension version help`)},
		"diff": {short: "uU:cC:qsyibBwEZaNrdtTpnvx:X:W:L:F:S:I:", numbers: true, long: set(`unified context brief
			report-identical-files side-by-side ignore-case ignore-space-change ignore-blank-lines ignore-all-space
			ignore-tab-expansion ignore-trailing-space text new-file unidirectional-new-file recursive minimal
			expand-tabs initial-tab show-c-function show-function-line normal rcs exclude exclude-from starting-file width
			label suppress-common-lines suppress-blank-empty color left-column strip-trailing-cr speed-large-files
			ignore-matching-lines no-dereference ignore-file-name-case tabsize horizon-lines version help`)},
		"jq": {short: "rcsnejSCMaRh", long: set(`raw-output compact-output slurp null-input exit-status join-output
			sort-keys color-output monochrome-output ascii-output raw-input arg argjson args jsonargs tab indent stream seq
			help version`), operand: func(s string) bool {
			return !strings.Contains(strings.ToLower(s), "env") && !imports.MatchString(s)
		}},
		"find": {numbers: true, long: set(`H L P name iname path ipath wholename iwholename regex iregex regextype type xtype
			maxdepth mindepth mount xdev depth follow daystart size empty links newer newermt mtime mmin ctime cmin atime amin
			perm user group nouser nogroup readable writable executable samefile inum lname true false print print0 printf ls
			prune quit not a and o or`)},
		"sed": {short: "nErsz", long: set("quiet silent regexp-extended separate null-data"), script: reading},
		"awk": {short: "F:v:", some: true, operand: func(s string) bool {
			return !strings.ContainsAny(s, ">|@") && !strings.Contains(s, "system") && !awkReads.MatchString(s)
		}},
		"test": {long: tests, operand: noFormula}, "[": {long: tests, operand: noFormula},
		"command": {short: "vV", need: []string{"-v", "-V"}}, "type": {short: "aftpP"}, "printf": {},
		"less": {short: "NSRFXEeiInsmMqgwrJ", numbers: true, operand: noCommand},
		"more": {short: "dlfpcsu", numbers: true, operand: noCommand},
	}
	// These programs may have all options: none writes a file or runs a program.
	for p := range set(`cd pwd ls cat head tail wc stat du df which echo grep egrep cut tr nl basename dirname realpath cmp
		true md5sum sha1sum sha256sum`) {
		m[p] = &options{all: true}
	}
	none := func(string) bool { return false }
	m["uname"], m["nproc"] = &options{short: "asnrvmpio", operand: none}, &options{operand: none}
	m["lsof"] = &options{short: "inPtp:"}
	m["sleep"] = &options{operand: duration.MatchString}
	for p := range set("id free pgrep readlink seq column") {
		m[p] = &options{short: "aghlunm:frsxt:"}
	}
	for p := range set("whoami uptime lscpu arch") { // on macOS, arch runs the program in its arguments
		m[p] = &options{operand: none}
	}
	// No option of these writes a file or runs a program.
	for p := range set("tac rev fold fmt expand unexpand paste join comm od strings hexdump cksum sha1sum sha512sum " +
		"false") {
		m[p] = &options{all: true}
	}
	return m
}()

var (
	// awkReads matches names with which a program of awk reads a file or a variable that the command line does not
	// name, and the names of files for which gawk connects to another machine.
	awkReads = regexp.MustCompile(`ENVIRON|getline|ARG[VC]|SYMTAB|/inet`)
	// imports matches the beginning of a program of jq that may import a file, perhaps after a comment.
	imports = regexp.MustCompile(`^\s*(#|(module|import|include)[\s"#{])`)
)

// gitLookers are the subcommands of git that only look.
var gitLookers = func() map[string]*options {
	shows := &options{short: "psuwbaRrtzcmgeliEFPqWDhn:L:S:G:M:C:B:U:O:X:", numbers: true, long: set(`oneline stat numstat
		shortstat dirstat summary patch no-patch patch-with-stat raw name-only name-status graph all branches tags remotes
		decorate no-decorate format pretty abbrev-commit no-abbrev-commit abbrev date since after until before author
		committer grep invert-grep all-match regexp-ignore-case extended-regexp fixed-strings perl-regexp max-count skip
		reverse merges no-merges first-parent follow diff-filter word-diff word-diff-regex color-words color no-color
		cached staged merge-base unified ignore-all-space ignore-space-change ignore-space-at-eol ignore-blank-lines
		minimal patience histogram find-renames no-renames find-copies cc full-history topo-order date-order
		author-date-order left-right cherry cherry-pick cherry-mark no-ext-diff no-textconv no-index exit-code quiet
		check relative no-prefix text binary full-index porcelain line-porcelain incremental show-email root numbered email
		group not source ancestry-path simplify-by-decoration pickaxe-regex pickaxe-all function-context
		inter-hunk-context submodule no-notes notes walk-reflogs reflog boundary no-walk clear-decorations`)}
	return map[string]*options{"log": shows, "diff": shows, "show": shows, "blame": shows, "shortlog": shows,
		"ls-files": {all: true}, "rev-parse": {all: true}, "describe": {all: true},
		"status": {short: "sbvzu:", long: set(`short branch show-stash porcelain long verbose untracked-files ignored
			ignore-submodules null column no-column ahead-behind no-ahead-behind renames no-renames find-renames`)}}
}()

// remoteLookers are the subcommands of gh that only print text from a server. Other people may have written the
// text. The options --jq and --web are left out: --jq can print the environment, and --web starts a browser.
var remoteLookers = func() map[string]*options {
	shows := &options{short: "cvsaR:b:L:j:S:l:A:B:H:", long: set(`comments json repo limit state label author assignee
		search base head branch job log log-failed verbose exit-status attempt patch name-only color required draft
		workflow user event status commit created all exclude-drafts exclude-pre-releases order milestone mention app
		yaml ref archived source fork visibility language topic watch interval fail-fast compact`)}
	m := make(map[string]*options)
	for _, line := range strings.Fields(`pr/checks pr/view pr/list pr/status pr/diff run/view run/list run/watch issue/view
		issue/list issue/status release/view release/list workflow/view workflow/list repo/view repo/list label/list`) {
		m[line] = shows
	}
	return m
}()

// targets are names of make targets and package scripts that build and test.
var targets = set(`all clean build compile test tests check checks lint fmt format vet typecheck type-check type_check
	types tsc unit unittest unit-test test-unit test:unit integration coverage cover bench help docs doc generate`)

// written reports whether a path is in the folder in which the line starts, or in /tmp. A program may write to such an
// operand.
func written(s string) bool { return own(strings.TrimPrefix(s, "/tmp/")) && !started(s) }

// ownBranch reports whether s is the name of a branch that is probably of the repository itself: origin and upstream
// are usual names of remotes, and names such as FETCH_HEAD those of commits from them.
func ownBranch(s string) bool {
	first, _, folder := strings.Cut(strings.ToLower(s), "/")
	return plainName(s) && !commitNumber.MatchString(s) && !strings.HasSuffix(first, "head") && first != "origin" &&
		first != "upstream" && (!folder || branchFolders[first])
}

// commitNumber matches the number of a commit, which may be from a remote, and the name that git describe prints.
var commitNumber = regexp.MustCompile(`^[[:xdigit:]]{4,}$|-g[[:xdigit:]]{4,}$`)

var branchFolders = set(`feature features feat fix bugfix hotfix chore docs refactor test tests perf ci build
	wip release`)

// builders are programs that build or test, and programs that write in the folder, with their permitted options.
var builders = map[string]*options{
	"mkdir": {short: "pv", operand: written},
	"touch": {short: "acm", operand: written},
	"cp":    {short: "aRrpvnuifTdLP", operand: written, patterns: true},
	"mv":    {short: "vnuif", operand: written, patterns: true},
	"tee":   {short: "a", operand: written},
	"sed": {short: "nErszi;", long: set("in-place"), script: plainSed, patterns: true,
		operand: func(s string) bool { return written(s) && !writesAs(s) }},
	"make": {short: "ksBnij0123456789", long: set("jobs keep-going silent quiet dry-run always-make"),
		operand: func(s string) bool { return targets[s] || strings.Trim(s, "0123456789") == "" }},
	"gofmt":     {long: set("l w d s e"), patterns: true},
	"goimports": {long: set("l w d e"), patterns: true},
	"isort":     {short: "cqv", long: set("check check-only diff quiet verbose")},
	"coverage": {short: "m:", first: set("run report combine"), some: true, operand: own,
		checked: map[string]func(string) bool{"m": func(s string) bool { return s == "pytest" || s == "unittest" }}},
	"playwright": {short: "g:", first: set("test"), some: true, long: set("grep headed workers project"), operand: own,
		checked: map[string]func(string) bool{"reporter": ownFile}},
	"staticcheck": {long: set("checks tests f fail show-ignored tags go version")},
	"tsc": {own: set("p project"), long: set("noEmit pretty strict skipLibCheck version v b build"),
		operand: ownFile},
	"eslint":   {long: set("fix quiet ext max-warnings no-error-on-unmatched-pattern version")},
	"prettier": {short: "cwl", long: set("check write list-different version ignore-unknown")},
	"vitest": {short: "t:", long: set("run silent bail testNamePattern watch coverage"),
		checked: map[string]func(string) bool{"reporter": ownFile}},
	"jest": {short: "t:i", long: set(`silent ci runInBand bail testNamePattern verbose passWithNoTests coverage
		testPathPattern watch watchAll maxWorkers listTests`)},
	"pytest": {short: "qvxslk:m:r:n:", long: set(`tb lf ff last-failed failed-first maxfail no-header no-summary quiet
		verbose exitfirst collect-only co durations capture disable-warnings stepwise sw showlocals color strict-markers
		cov-branch no-cov timeout nf new-first ff full-trace deselect`),
		own: set("cov cov-report junitxml junit-xml ignore"), operand: noList},
	"ruff": {short: "qv", first: set("check format"), some: true, long: set(`fix diff check select ignore quiet statistics
		no-cache line-length verbose`)},
	"mypy": {short: "v", operand: noList, long: set(`strict ignore-missing-imports no-error-summary show-error-codes
		pretty no-incremental`)},
	"black":         {short: "qvl:", long: set("check diff quiet verbose line-length color")},
	"flake8":        {short: "vq", long: set("count statistics show-source max-line-length select ignore extend-ignore")},
	"golangci-lint": {short: "v", first: set("run"), some: true, long: set("fix fast timeout verbose")},
	"shellcheck":    {short: "S:s:f:e:i:x", long: set("severity shell format exclude include")},
}

// modules are the builders that Python runs with -m.
var modules = map[string]*options{"pytest": builders["pytest"], "mypy": builders["mypy"], "ruff": builders["ruff"],
	"black": builders["black"], "flake8": builders["flake8"], "unittest": unittest}

// unittest are the arguments of Python's unittest, which has the options -s, -p and -t behind discover.
var unittest = &options{short: "vqfbck:s:p:t:", operand: own, own: set("start-directory top-level-directory"),
	long: set("verbose quiet failfast buffer catch locals"), values: set("pattern"),
	checked: map[string]func(string) bool{"s": ownFile, "t": ownFile}}

// packages are programs that run a script of a package. The words after -- become arguments of the script. toScript are
// the permitted ones: arguments of test runners and linters.
var (
	packages = set("npm pnpm yarn")
	toScript = &options{short: "t:k:g:ivx", long: set(`run silent bail fix ci runInBand verbose coverage passWithNoTests
		testNamePattern testPathPattern grep max-warnings noEmit check watch watchAll maxWorkers listTests`)}
)

// interpreters are programs that run scripts, with the ending of the scripts' names. A line that runs a script in the
// folder counts as Build, because a test runner also runs any code in the folder.
var interpreters = map[string]string{"python": ".py", "python3": ".py", "node": ".js"}

// npx lists the builders that npx runs.
var npx = set("tsc eslint prettier vitest jest playwright")

// buildersBy are the subcommands that build, test or stage, by program. No option in the lists discards work or
// replaces a reference of git.
var buildersBy = func() map[string]map[string]*options {
	goTool := &options{long: set(`v x n a race run count short timeout cover covermode coverpkg bench benchmem benchtime
		json tags p parallel cpu failfast shuffle skip vet list trimpath work msan asan m f deps e test u
		versions find`), own: set("o coverprofile")}
	cargo := &options{short: "vqp:j:F:D:W:A:", long: set(`release verbose quiet all workspace all-targets all-features
		no-default-features features lib bins bin tests test examples example benches no-run package locked offline
		frozen nocapture test-threads exact check jobs no-fail-fast doc message-format exclude`)}
	script := &options{short: "s", long: set("silent if-present workspaces"), first: targets, some: true}
	packageTest := &options{short: "s", long: set("silent"), operand: func(string) bool { return false }}
	scripts := map[string]*options{"run": script}
	for target := range targets {
		scripts[target] = &options{short: "s", long: set("silent"), operand: own}
	}
	return map[string]map[string]*options{
		"pnpm": scripts, "yarn": scripts,
		"git": {
			"add": {short: "AuvnNf", long: set("all update verbose dry-run intent-to-add force")},
			"commit": {short: "aqvsm:F:", long: set(`all message amend no-edit quiet verbose signoff allow-empty author
				date dry-run file`)},
			"checkout": {short: "b:qt", long: set("quiet track"), need: []string{"-b"}, max: 1},
			"switch":   {short: "c:qtd", long: set("create quiet track detach guess no-guess")},
			"branch": {short: "arvlq", long: set(`list all remotes verbose show-current contains no-contains merged no-merged
				sort points-at column no-column color track quiet`)},
			"stash": {short: "uaqpm:k", long: set("include-untracked all quiet message keep-index index"),
				first: set("push save list show apply pop")},
			"restore": {short: "Sq", long: set("staged quiet"), need: []string{"--staged", "-S"}},
			"mv":      {short: "knv", long: set("verbose dry-run"), operand: written},
			// Neither discards changes that are not committed. Without a name, the branch is that of a remote. The option
			// --exec of rebase runs programs.
			"merge": {short: "nqvm:", some: true, operand: ownBranch, long: set(`ff no-ff ff-only squash no-squash commit
				no-commit no-edit stat no-stat quiet verbose`)},
			"rebase": {short: "nqv", some: true, operand: ownBranch, long: set("quiet verbose stat no-stat autostash")},
		},
		"go": {"version": {}, "doc": {long: set("all short u src c cmd")}, "env": {some: true, operand: func(s string) bool {
			return strings.ToUpper(s) == s && !strings.Contains(s, "=")
		}}, "build": goTool, "test": goTool, "vet": goTool, "fmt": goTool, "list": goTool, "generate": goTool},
		"cargo": {"build": cargo, "test": cargo, "check": cargo, "fmt": cargo, "clippy": cargo,
			"nextest": {short: "vp:j:E:", first: set("run"), some: true, long: set(`release workspace all-features no-fail-fast
				package test-threads no-capture profile`)}},
		"npm": {"test": packageTest, "t": packageTest, "run": script},
	}
}()
