package audit

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/term"

	"lazaret/internal/auditor"
	"lazaret/internal/cli"
	"lazaret/internal/cli/verb"
	"lazaret/internal/datafolder"
	"lazaret/internal/statement"
	"lazaret/internal/wire"
	"lazaret/pkg/chain"
	"lazaret/pkg/chain/witness"
	"lazaret/pkg/keys"
	"lazaret/streams"
)

// verifyReport is the result of `audit verify`.
type verifyReport struct {
	chain.Report // Report.Seen is about checkpoints of earlier verifications on this machine
	// Conflicts are the checkpoints of earlier verifications on this machine that the log does not extend.
	Conflicts []conflict `json:"conflicts,omitempty"`

	// Ledger is the comparison of the leaves with the ledger, if requested.
	Ledger *auditor.Comparison `json:"ledger,omitempty"`

	// Decisions is the number of people's decisions on holds whose signatures verify with the keys that were
	// active at the time. DecisionsOpen is the number of decisions that cannot be checked because the log lacks
	// the note or the keys. If there are any, the verification is incomplete.
	Decisions     int `json:"decisions"`
	DecisionsOpen int `json:"decisions_not_shown,omitempty"`
	// Covered is the number of actions that a verified approval of a source covers. Actions whose approval
	// cannot be verified are counted in DecisionsOpen.
	Covered int `json:"covered_actions,omitempty"`

	RuleSets []string `json:"rule_sets"` // digests that entries activated
	Policies []string `json:"policies"`
}

type verifyFlags struct {
	dir      string
	against  []string
	policy   string
	bundle   string
	export   string
	keys     string
	from, to int64
	offline  bool
	ledger   bool
	json     bool
}

func init() { Verbs.Add("audit", verifyCommand) }

func verifyCommand(a *verb.App) *cobra.Command {
	var f verifyFlags
	c := &cobra.Command{
		Use:   "verify",
		Short: "Recompute the whole log from disk (exit 0 verified, 2 failed, 3 incomplete)",
		Long: `Recompute every leaf, link, hash, signature and payload commitment of the log from the
files on disk, and check that the log extends every known checkpoint: those stored in the
log, those given with --against, and those of earlier verifications on this machine, which
are stored in the user's state folder ($XDG_STATE_HOME/lazaret) for this log and for this
folder. With a witness policy (--policy or DATA/witnesses.policy) the last checkpoint needs
the cosignatures of the quorum.

If the auditor runs, the command asks it for a snapshot of the log and verifies the
snapshot. With --offline it reads the log's files without asking. With --from and --to it
verifies only these leaves, and the result is incomplete.

A verification of the whole log also checks the signatures of the people who decided holds.
If an action was allowed by the approval of a source, the command checks the signature of
this approval too. The action must be in the approval's session, before the approval ended
or was withdrawn, and within its number of actions. If the signed note of a decision was
erased lawfully, or may be in a gap of the log, the decision counts as unexplained, and the
result is incomplete. Any other decision without a signed note is a fault.

--export FILE checks an export of all entries ("audit export"): the command computes the
tree of the lines and compares it with signed checkpoints. So it detects changed, omitted
and moved lines. It cannot verify the bodies without the log, so the exit code is 3 at best.

Exit codes: 0 verified, 1 could not run, 2 failed, 3 incomplete: no faults in the checked
part, but there was no outside checkpoint to compare with (the first time on a machine,
without --against and witnesses), the ledger has gaps, bodies were not checked, a decision is
unexplained, or the key that decrypts the bodies is missing. The command never makes a key.`,
		Example: "  lazaret audit verify\n  lazaret audit verify --against checkpoint-of-monday --policy " +
			"witnesses.policy\n  lazaret audit verify --dir /mnt/copy/audit --offline --json",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.export != "" {
				return verifyExport(a, cmd, f)
			}
			do := verify
			if f.bundle != "" {
				do = verifyBundleFile
			}
			rep, err := do(a, cmd, f)
			if err != nil {
				return err
			}
			if f.json {
				if err := cli.JSON(cmd.OutOrStdout(), rep); err != nil {
					return err
				}
			} else {
				PrintReport(cmd.OutOrStdout(), rep.Report)
				printSeen(cmd.OutOrStdout(), rep)
			}
			switch rep.Status {
			case chain.Verified:
				return nil
			case chain.Failed:
				return &cli.Exit{Code: cli.ExitNegative}
			}
			return &cli.Exit{Code: cli.ExitIncomplete}
		},
	}
	fs := c.Flags()
	fs.StringVar(&f.dir, "dir", "", "folder of the `LOG` (default DATA/audit)")
	fs.StringArrayVar(&f.against, "against", nil,
		"an earlier checkpoint `FILE` that this log must extend; may be given several times")
	fs.StringVar(&f.policy, "policy", "", "witness policy `FILE` (default DATA/witnesses.policy where there is one)")
	fs.StringVar(&f.bundle, "bundle", "", "verify this bundle `FILE` instead of the log, with only the public keys")
	fs.StringVar(&f.export, "export", "",
		"verify this `FILE` of audit export --format jsonl, redacted or not, against the checkpoints of --against")
	fs.StringVar(&f.keys, "keys", "",
		"trust `FILE` with the public keys for --bundle and --export (default DATA/trust.yaml)")
	fs.Int64Var(&f.from, "from", 0, "begin with the leaf of this `INDEX`")
	fs.Int64Var(&f.to, "to", 0, "end before the leaf of this `INDEX` (default: the log's end)")
	fs.BoolVar(&f.offline, "offline", false, "do not ask a running auditor for a snapshot")
	fs.BoolVar(&f.ledger, "ledger", false,
		"also compare every leaf with the ledger over NATS")
	fs.BoolVar(&f.json, "json", false, "print JSON")
	return c
}

// auditorKeys returns the keys that may sign checkpoints.
func auditorKeys(a *verb.App) (*keys.Trust, error) {
	a.Conn.Resolve()
	trust, err := keys.LoadTrust(datafolder.TrustFile(a.Conn.Data))
	if err != nil {
		return nil, fmt.Errorf("reading the keys that may sign checkpoints: %w", err)
	}
	return trust, nil
}

// operatorKeys returns the operators' keys that a trust file pins, or nil if there are none.
func operatorKeys(trust *keys.Trust) note.Verifiers {
	if slices.ContainsFunc(trust.Pins(), func(p keys.Pin) bool { return slices.Contains(p.Roles, keys.RoleOperator) }) {
		return trust.Verifiers(keys.RoleOperator)
	}
	return nil
}

// witnessPolicy reads the named policy, or the data folder's if there is one.
func witnessPolicy(a *verb.App, file string) (*witness.Policy, error) {
	named := file != ""
	if !named {
		file = datafolder.WitnessPolicy(a.Conn.Data)
	}
	b, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) && !named {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	p, err := witness.ParsePolicy(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return p, nil
}

// verify verifies the log, or a snapshot if a process has locked it. It stores the log's checkpoint if
// there are no faults.
func verify(a *verb.App, cmd *cobra.Command, f verifyFlags) (*verifyReport, error) {
	ctx := cmd.Context()
	trust, err := auditorKeys(a)
	if err != nil {
		return nil, err
	}
	dir := cmp.Or(f.dir, datafolder.AuditDir(a.Conn.Data))
	if _, err := os.Stat(dir); err != nil {
		return nil, fmt.Errorf("no log: %w: name its folder with --dir, or the data folder with --data", err)
	}
	master, err := datafolder.ReadMasterKey(a.Conn.Data)
	if err != nil {
		return nil, err
	}
	vs := trust.Verifiers(keys.RoleAuditor)
	v := chain.VerifyOptions{Verifiers: vs, Lawful: statement.Lawful(trust.Verifiers(keys.RoleOperator)), From: f.from,
		To: f.to}
	if v.Against, err = readAll(f.against); err != nil {
		return nil, err
	}
	policy, err := witnessPolicy(a, f.policy)
	if err != nil {
		return nil, err
	}
	if policy != nil {
		v.Quorum = policy
	}
	rep := &verifyReport{RuleSets: []string{}, Policies: []string{}}
	seen, seenErr := loadSeen(dir, vs)
	if seenErr == nil {
		seen.addTo(&v)
	}
	inForce := newActivations()
	decisions := newApprovals()
	v.Payload = func(leaf *chain.Leaf, payload []byte) {
		inForce.see(leaf, payload)
		decisions.see(leaf, payload)
	}
	v.Missing = func(leaf *chain.Leaf) { decisions.miss(leaf) }
	stop := showProgress(&v)
	defer stop()

	last := []byte(nil)
	var handovers [][]byte
	run := func(dir string) (err error) {
		inForce, decisions = newActivations(), newApprovals()
		if last, err = os.ReadFile(dir + "/" + chain.HeadFile); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		opts := chain.Options{MasterKey: master}
		if rep.Report, err = chain.VerifyDir(ctx, dir, opts, v); err == nil && rep.Handovers > 0 &&
			rep.Status != chain.Failed {
			handovers, err = handoversIn(dir, opts)
		}
		if err == nil && f.ledger && rep.Status != chain.Failed {
			err = compareLedger(a, ctx, dir, opts, rep)
		}
		if err == nil && rep.Status == chain.Failed {
			err = auditor.Gone(dir)
		}
		if err == nil && rep.Status == chain.Failed && seenErr == nil {
			rep.Conflicts = seen.conflicts(dir, opts, vs, last)
		}
		return err
	}
	err = run(dir)
	if errors.Is(err, chain.ErrLocked) && !f.offline {
		err = onSnapshot(a, ctx, dir, err, run)
	}
	if err != nil {
		return nil, locked(err, "leave out --offline to ask the auditor for a snapshot, or stop the auditor")
	}
	stop()
	rep.RuleSets, rep.Policies = inForce.lists()
	rep.decided(decisions, f.from == 0 && f.to == 0, operatorKeys(trust))
	if seenErr != nil {
		rep.Skipped = append(rep.Skipped, fmt.Sprintf("whether the log extends the checkpoint that this machine saw last, "+
			"which could not be read: %v", seenErr))
	}
	if seenErr == nil && seen.here != nil && rep.Status != chain.Failed {
		rep.Report.Seen = max(rep.Report.Seen, seen.here.Size)
	}
	rep.complete(len(f.against) > 0 || rep.Report.Seen > 0 || rep.Witnessed > 0)
	if seenErr == nil && rep.Status != chain.Failed && last != nil {
		if err := seen.save(last, handovers); err != nil {
			fmt.Fprintln(os.Stderr, "lazaret: the checkpoint could not be stored for the next verification:", err)
		}
	}
	return rep, nil
}

// decided adds the results of the checks of people's signatures.
func (r *verifyReport) decided(x *approvalsSeen, whole bool, operators note.Verifiers) {
	if !whole || r.Status == chain.Failed {
		return
	}
	c := x.check(r.Gaps > 0 || r.NotHeld > 0, operators)
	if operators == nil && c.checked > 0 {
		r.Skipped = append(r.Skipped, "who activated the approvers' keys: no operator's key is pinned")
	}
	r.Decisions, r.DecisionsOpen, r.Covered = c.checked, c.open+x.dropped, c.covered
	if r.DecisionsOpen > 0 {
		r.Skipped = append(r.Skipped, fmt.Sprintf("%d decisions of people, or actions that such decisions cover: they are "+
			"unexplained, because the log does not show the signed note, the keys or the verdict any more", r.DecisionsOpen))
	}
	for _, b := range c.bad {
		if r.FirstBad < 0 || b.index < r.FirstBad {
			r.FirstBad = b.index
		}
		r.Problems, r.Status = append(r.Problems, b.text), chain.Failed
	}
}

// noAnchor is the reason for an unanchored verification.
const noAnchor = "whether the log was rewritten as a whole: there was no checkpoint from outside to compare it with. " +
	"The log's checkpoint is remembered for the next time; or give an earlier one with --against, or a witness policy"

// complete lists what was not checked. If there is anything, it changes the result verified to incomplete. anchored
// means that the log was checked against a checkpoint from outside.
func (r *verifyReport) complete(anchored bool) {
	if r.Size == 0 {
		r.Skipped = append(r.Skipped, "whether the log had leaves earlier: it has none now")
	} else if !anchored {
		r.Skipped = append(r.Skipped, noAnchor)
	}
	if r.Gaps > 0 {
		r.Skipped = append(r.Skipped,
			fmt.Sprintf("ledger entries that were lost before they were chained: there are %d gaps", r.Gaps))
	}
	if r.Status == chain.Verified && len(r.Skipped) > 0 {
		r.Status = chain.Incomplete
	}
}

// compareLedger compares the leaves with the ledger.
func compareLedger(a *verb.App, ctx context.Context, dir string, o chain.Options, rep *verifyReport) (err error) {
	o.ReadOnly = true
	l, err := chain.Open(dir, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	nc, err := a.Conn.Connect("operator")
	if err != nil {
		return fmt.Errorf("the ledger cannot be asked: %w", err)
	}
	defer nc.Close()
	if rep.Ledger, err = auditor.CompareLedger(ctx, wire.JetStream(nc), l); err != nil {
		return err
	}
	for _, b := range rep.Ledger.Bad {
		if rep.FirstBad < 0 || b.Index < rep.FirstBad {
			rep.FirstBad = b.Index
		}
		if len(rep.Problems) < maxLedgerProblems {
			rep.Problems = append(rep.Problems, b.Text)
		}
		rep.Status = chain.Failed
	}
	return nil
}

// maxLedgerProblems is the maximum number of printed differences from the ledger. --json lists all.
const maxLedgerProblems = 20

func handoversIn(dir string, o chain.Options) (_ [][]byte, err error) {
	o.ReadOnly = true
	l, err := chain.Open(dir, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	return l.Handovers()
}

// verifyBundleFile verifies a bundle.
func verifyBundleFile(a *verb.App, cmd *cobra.Command, f verifyFlags) (*verifyReport, error) {
	if f.dir != "" || f.from != 0 || f.to != 0 || f.policy != "" {
		return nil, errors.New("a bundle is verified as a whole: leave out --dir, --from, --to and --policy")
	}
	against, err := readAll(f.against)
	if err != nil {
		return nil, err
	}
	a.Conn.Resolve()
	rep, err := verifyBundle(a, cmd, f.bundle, f.keys, against)
	out := &verifyReport{Report: rep, RuleSets: []string{}, Policies: []string{}}
	if err == nil {
		out.complete(len(against) > 0)
	}
	return out, err
}

func readAll(files []string) ([][]byte, error) {
	var out [][]byte
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		out = append(out, b)
	}
	return out, nil
}

// onSnapshot calls f with a snapshot of the log from the running auditor.
func onSnapshot(a *verb.App, ctx context.Context, log string, locked error, f func(dir string) error) error {
	nc, err := a.Conn.Connect("operator")
	if err != nil {
		return fmt.Errorf("%w, and it cannot be asked for a snapshot: %w", locked, err)
	}
	defer nc.Close()
	return auditor.WithSnapshot(ctx, nc, log, f)
}

// VerifyLog verifies the log in dir, or a snapshot of it if a process has locked it. If against is not nil, the log
// must extend that checkpoint. Unlike `lazaret audit verify`, VerifyLog neither reads nor stores checkpoints of other
// verifications.
func VerifyLog(a *verb.App, ctx context.Context, dir string, against []byte) (chain.Report, error) {
	trust, err := auditorKeys(a)
	if err != nil {
		return chain.Report{}, err
	}
	master, err := datafolder.ReadMasterKey(a.Conn.Data)
	if err != nil {
		return chain.Report{}, err
	}
	v := chain.VerifyOptions{Verifiers: trust.Verifiers(keys.RoleAuditor),
		Lawful: statement.Lawful(trust.Verifiers(keys.RoleOperator))}
	if against != nil {
		v.Against = [][]byte{against}
	}
	var rep chain.Report
	run := func(dir string) (err error) {
		rep, err = chain.VerifyDir(ctx, dir, chain.Options{MasterKey: master}, v)
		if err == nil && rep.Status == chain.Failed {
			err = auditor.Gone(dir)
		}
		return err
	}
	if err = run(dir); errors.Is(err, chain.ErrLocked) {
		err = onSnapshot(a, ctx, dir, err, run)
	}
	return rep, err
}

// showProgress shows a progress bar on a terminal if the verification takes long.
func showProgress(v *chain.VerifyOptions) (stop func()) {
	if !term.IsTerminal(int(os.Stderr.Fd())) {
		return func() {}
	}
	var mu sync.Mutex
	var bar *progressbar.ProgressBar
	begun := time.Now()
	v.Progress = func(done, total int64) {
		mu.Lock()
		defer mu.Unlock()
		if bar == nil {
			if time.Since(begun) < 300*time.Millisecond {
				return
			}
			bar = progressbar.NewOptions64(total, progressbar.OptionSetWriter(os.Stderr),
				progressbar.OptionSetDescription("verifying"), progressbar.OptionShowCount(),
				progressbar.OptionShowIts(), progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish())
		}
		_ = bar.Set64(done)
	}
	return func() {
		mu.Lock()
		defer mu.Unlock()
		if bar != nil {
			_ = bar.Finish()
			bar = nil
		}
	}
}

// activations are the rule sets and policies that entries activated.
type activations struct {
	mu              sync.Mutex
	rules, policies map[string]bool // guarded by mu
}

func newActivations() *activations {
	return &activations{rules: make(map[string]bool), policies: make(map[string]bool)}
}

func (x *activations) see(leaf *chain.Leaf, payload []byte) {
	if leaf.Type != string(streams.TypeActivation) {
		return
	}
	var e streams.ActivationEntry
	_, body, ok := bytes.Cut(payload, []byte("\n"))
	if !ok || streams.Unmarshal(body, &e) != nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	switch e.Do {
	case streams.DoActivateRules:
		x.rules[e.Digest] = true
	case streams.DoActivatePolicy:
		x.policies[e.Digest] = true
	}
}

func (x *activations) lists() (rules, policies []string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.AppendSeq([]string{}, maps.Keys(x.rules)), slices.AppendSeq([]string{}, maps.Keys(x.policies))
}

// PrintReport prints the result of a chain's verification, as `lazaret audit verify` does.
func PrintReport(w io.Writer, r chain.Report) {
	switch r.Status {
	case chain.Verified:
		fmt.Fprintln(w, "VERIFIED")
	case chain.Failed:
		if r.FirstBad >= 0 {
			fmt.Fprintf(w, "FAILED at index %d\n", r.FirstBad)
		} else {
			fmt.Fprintln(w, "FAILED")
		}
	default:
		fmt.Fprintln(w, "INCOMPLETE: no fault was found, but not everything was checked")
	}
	fmt.Fprintf(w, "  %d leaves: %d ledger entries up to %d, %d gaps\n", r.Size, r.Entries, r.LastSeq, r.Gaps)
	if r.Resets > 0 {
		fmt.Fprintf(w, "  the ledger was created again %d times\n", r.Resets)
	}
	fmt.Fprintf(w, "  %d payloads match their commitments, %d forgotten\n", r.Payloads, r.Forgotten)
	fmt.Fprintf(w, "  %d checkpoints, root %s\n", r.Checkpoints, r.Root)
	if r.Handovers > 0 {
		fmt.Fprintf(w, "  %d handovers to another signing key\n", r.Handovers)
	}
	if r.Witnessed > 0 {
		fmt.Fprintf(w, "  witnesses vouch for %d leaves\n", r.Witnessed)
	}
	for _, p := range r.Problems {
		fmt.Fprintln(w, "  wrong:", verb.Quote(p, 300))
	}
	for _, s := range r.Skipped {
		fmt.Fprintln(w, "  not checked:", s)
	}
}

func printSeen(w io.Writer, r *verifyReport) {
	if c := r.Ledger; c != nil {
		fmt.Fprintf(w, "  %d leaves agree with the ledger; %d trimmed there, %d forgotten, %d wrong\n", c.Compared,
			c.Trimmed, c.Forgotten, len(c.Bad))
	}
	if r.Status == chain.Failed {
		printConflicts(w, r)
		return
	}
	if r.Seen > 0 {
		fmt.Fprintf(w, "  it extends the %d leaves that this machine saw before\n", r.Seen)
	}
	if r.Decisions > 0 {
		fmt.Fprintf(w, "  %d decisions of people have valid signatures, by keys that were active at the time\n", r.Decisions)
	}
	if r.Forgotten > 0 {
		fmt.Fprintf(w, "  decisions of people among the %d forgotten payloads cannot be checked any more\n", r.Forgotten)
	}
	if r.Covered > 0 {
		fmt.Fprintf(w, "  %d actions are covered by a signed approval of their source\n", r.Covered)
	}
	if len(r.RuleSets) > 0 {
		fmt.Fprintf(w, "  rule sets that were in force: %s\n", strings.Join(r.RuleSets, ", "))
	}
}
