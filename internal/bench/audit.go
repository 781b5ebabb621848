package bench

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/mod/sumdb/note"

	"lazaret/pkg/chain"
)

// AuditOptions configure the benchmark of the log.
type AuditOptions struct {
	Entries int // number of entries in each round
	Size    int // bytes of a payload
	Batch   int // entries per append and sync
	Rounds  int
	Proofs  int
	Dir     string // folder for temporary logs
	// Follow, if set, measures how many entries of the given size an auditor chains per second when it reads
	// them from a ledger.
	Follow func(ctx context.Context, entries, size int) (perSecond float64, err error)
}

// AuditReport has the figures of the log. Rates are medians of the rounds.
type AuditReport struct {
	Entries int `json:"entries"`
	Size    int `json:"payload_bytes"`
	Batch   int `json:"batch"`
	Rounds  int `json:"rounds"`
	Workers int `json:"workers"`

	// Append is the rate with encryption, Merkle tree, and one sync per batch.
	Append     float64 `json:"append_per_s"`
	AppendCPU  float64 `json:"append_cpu_us"`                   // per entry
	FromLedger float64 `json:"jetstream_append_per_s,omitzero"` // result of AuditOptions.Follow
	// Verify is the rate of verifying entries: their leaves, payloads and tree are recomputed from disk.
	// VerifyBytes is the same rate in bytes of leaves, salts and payloads, each counted once.
	Verify      float64 `json:"verify_per_s"`
	VerifyCPU   float64 `json:"verify_cpu_us"` // per entry
	VerifyBytes float64 `json:"verify_bytes_per_s"`
	// SHA256 is the rate of crypto/sha256 on all processors, each hashing one payload-sized message at
	// a time. It is measured alternately with Verify.
	SHA256 float64 `json:"sha256_bytes_per_s"`
	Ratio  float64 `json:"verify_of_sha256"` // VerifyBytes divided by SHA256: the median of the rounds
	// RatioCPU is Ratio computed from processor times, which other load on the machine affects less.
	RatioCPU float64 `json:"verify_of_sha256_cpu"`
	// ProofP50 and ProofP99 are the times of inclusion proofs of random leaves, in microseconds.
	ProofP50 float64 `json:"prove_p50_us"`
	ProofP99 float64 `json:"prove_p99_us"`
}

// Lines returns the figures and their budgets.
func (r *AuditReport) Lines() []Line {
	out := []Line{
		{What: "entries appended to the log, encrypted, synced, with the " +
			"tree", Value: r.Append, Unit: "/s", Budget: ">= 150000 /s",
			Pass: r.Append >= 150_000},
		{What: "  processor time per entry", Value: r.AppendCPU, Unit: "us"},
	}
	if r.FromLedger > 0 {
		out = append(out, Line{What: "  fed from JetStream", Value: r.FromLedger, Unit: "/s", Budget: ">= 60000 /s",
			Pass: r.FromLedger >= 60_000})
	}
	return append(out,
		Line{What: "verification, payloads included", Value: r.Verify, Unit: "/s"},
		Line{What: "  processor time per entry", Value: r.VerifyCPU, Unit: "us"},
		Line{What: "  bytes hashed", Value: r.VerifyBytes / 1e6, Unit: "MB/s"},
		Line{What: "SHA-256 on the same processors", Value: r.SHA256 / 1e6, Unit: "MB/s"},
		Line{What: "  ratio of verification to SHA-256", Value: r.Ratio, Unit: "x", Budget: ">= 0.4 x", Pass: r.Ratio >= 0.4},
		Line{What: "  the ratio by processor time", Value: r.RatioCPU, Unit: "x"},
		Line{What: "inclusion proof, median", Value: r.ProofP50, Unit: "us"},
		Line{What: "  99th percentile", Value: r.ProofP99, Unit: "us"},
	)
}

// Audit runs the benchmark of the log.
func Audit(ctx context.Context, o AuditOptions) (*AuditReport, error) {
	rep := &AuditReport{Entries: o.Entries, Size: o.Size, Batch: o.Batch, Rounds: o.Rounds, Workers: runtime.GOMAXPROCS(0)}
	private, public, err := note.GenerateKey(rand.Reader, "bench")
	if err != nil {
		return nil, err
	}
	signer, err := note.NewSigner(private)
	if err != nil {
		return nil, err
	}
	verifier, err := note.NewVerifier(public)
	if err != nil {
		return nil, err
	}
	opts := chain.Options{Signer: signer, MasterKey: make([]byte, 32)}
	payloads := make([][]byte, 64)
	for i := range payloads {
		payloads[i] = make([]byte, o.Size)
		rand.Read(payloads[i])
	}
	var appends, appendCPU, verifies, verifyCPU, bytes, sha, ratio, ratioCPU []float64
	for round := range o.Rounds {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		dir := filepath.Join(o.Dir, fmt.Sprint(round))
		start, cpu := time.Now(), cpuTime()
		if err := fillLog(dir, opts, o, payloads); err != nil {
			return nil, err
		}
		took := time.Since(start).Seconds()
		appends = append(appends, float64(o.Entries)/took)
		appendCPU = append(appendCPU, (cpuTime()-cpu).Seconds()*1e6/float64(o.Entries))

		before, cost := hashRate(payloads)
		start, cpu = time.Now(), cpuTime()
		v, err := chain.VerifyDir(ctx, dir, opts, chain.VerifyOptions{Verifiers: note.VerifierList(verifier)})
		if err != nil {
			return nil, err
		}
		if v.Status != chain.Verified || v.Payloads != int64(o.Entries) {
			return nil, fmt.Errorf("the measured log does not verify: %+v", v)
		}
		took = time.Since(start).Seconds()
		verifies = append(verifies, float64(o.Entries)/took)
		used := (cpuTime() - cpu).Seconds()
		verifyCPU = append(verifyCPU, used*1e6/float64(o.Entries))
		bytes = append(bytes, float64(v.Bytes)/took)
		after, costAfter := hashRate(payloads)
		hashes := (before + after) / 2
		ratioCPU = append(ratioCPU, float64(v.Bytes)*(cost+costAfter)/2/max(used, 1e-9))
		sha = append(sha, hashes)
		ratio = append(ratio, float64(v.Bytes)/took/hashes)
		if round == o.Rounds-1 {
			if rep.ProofP50, rep.ProofP99, err = prove(dir, opts, o.Proofs); err != nil {
				return nil, err
			}
		}
		if err := os.RemoveAll(dir); err != nil {
			return nil, err
		}
	}
	rep.Append, rep.AppendCPU = median(appends), median(appendCPU)
	rep.Verify, rep.VerifyCPU, rep.VerifyBytes = median(verifies), median(verifyCPU), median(bytes)
	rep.SHA256, rep.Ratio, rep.RatioCPU = median(sha), median(ratio), median(ratioCPU)
	if o.Follow != nil {
		if rep.FromLedger, err = o.Follow(ctx, o.Entries, o.Size); err != nil {
			return nil, err
		}
	}
	return rep, nil
}

func fillLog(dir string, opts chain.Options, o AuditOptions, payloads [][]byte) error {
	l, err := chain.Open(dir, opts)
	if err != nil {
		return err
	}
	defer l.Close()
	es := make([]chain.Entry, 0, o.Batch)
	// Build one batch while the previous one is being written.
	wait := func() error { return nil }
	at := time.Unix(1_700_000_000, 0)
	for n := 1; n <= o.Entries; n++ {
		es = append(es, chain.Entry{Seq: uint64(n), Time: at, Type: "observation", Project: "demo",
			Salt: [16]byte{byte(n), byte(n >> 8), byte(n >> 16)}, Payload: payloads[n%len(payloads)]})
		if len(es) == o.Batch || n == o.Entries {
			next, err := l.AppendNoWait(es)
			if err := errors.Join(wait(), err); err != nil {
				return err
			}
			wait = next
			es = es[:0]
		}
	}
	if err := wait(); err != nil {
		return err
	}
	_, err = l.Checkpoint()
	return err
}

// hashRate returns how many bytes per second all processors hash, in messages of the payloads' size,
// and the processor time per byte in seconds.
func hashRate(payloads [][]byte) (perSecond, cost float64) {
	const each = 300 * time.Millisecond
	var wg sync.WaitGroup
	workers := runtime.GOMAXPROCS(0)
	done := make([]int, workers)
	start, cpu := time.Now(), cpuTime()
	for w := range workers {
		wg.Go(func() {
			var sink byte
			for time.Since(start) < each {
				for _, p := range payloads {
					sum := sha256.Sum256(p)
					sink ^= sum[0]
					done[w] += len(p)
				}
			}
			runtime.KeepAlive(sink)
		})
	}
	wg.Wait()
	total := 0
	for _, n := range done {
		total += n
	}
	return float64(total) / time.Since(start).Seconds(), (cpuTime() - cpu).Seconds() / float64(total)
}

func prove(dir string, opts chain.Options, n int) (p50, p99 float64, err error) {
	l, err := chain.Open(dir, opts)
	if err != nil {
		return 0, 0, err
	}
	defer l.Close()
	size := l.Head().Size
	took := make([]float64, 0, n)
	for i := range n {
		leaf := int64(uint64(i) * 2654435761 % uint64(size))
		start := time.Now()
		if _, err := l.ProveInclusion(leaf, size); err != nil {
			return 0, 0, err
		}
		took = append(took, float64(time.Since(start).Nanoseconds())/1e3)
	}
	slices.Sort(took)
	return took[n/2], took[n*99/100], nil
}
