package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Sample is the state of a pipeline at one time of a soak test.
type Sample struct {
	Seconds float64 `json:"seconds"`       // seconds since the start of the load
	Decided uint64  `json:"decided"`       // observations in the ledger
	Chained uint64  `json:"chained"`       // ledger sequence up to which the auditor has chained entries
	Lag     uint64  `json:"lag"`           // ledger messages that the auditor has not chained
	Waiting uint64  `json:"waiting"`       // messages in the intake
	RSS     uint64  `json:"rss_bytes"`     // resident memory
	Streams uint64  `json:"streams_bytes"` // size of the streams on disk
	State   uint64  `json:"state_bytes"`   // size of the state of all stages on disk
	Log     uint64  `json:"log_bytes"`     // size of the audit log on disk
}

// SoakReport is the result of a soak test.
type SoakReport struct {
	Events   int     `json:"events"`
	Projects int     `json:"projects"`
	Size     int     `json:"content_bytes"` // bytes of content of an observation
	Seconds  float64 `json:"seconds"`       // until the auditor had chained all entries

	// Days and Retention are numbers of simulated days of length Day; 0: none.
	Days      int           `json:"days,omitzero"`
	Retention int           `json:"retention_days,omitzero"`
	Day       time.Duration `json:"-"`

	Rate    float64  `json:"events_per_s"`
	Lost    int64    `json:"lost"` // acknowledged but not in the ledger
	Refused int      `json:"refused"`
	Samples []Sample `json:"samples"`

	// Early and Late are medians of resident memory over the second and the last quarter of the events.
	// The first quarter is ignored because it fills caches.
	Early     float64 `json:"rss_early_mb"`
	Late      float64 `json:"rss_late_mb"`
	Growth    float64 `json:"rss_growth"`  // Late divided by Early
	Peak      float64 `json:"rss_peak_mb"` // of all samples
	DiskBytes float64 `json:"disk_bytes_per_event"`
}

// Title returns the title of the graph.
func (r *SoakReport) Title() string {
	return fmt.Sprintf("%d observations of %d bytes", r.Events, r.Size)
}

// mostGrowth is the limit of the ratio Late/Early. Below it, memory counts as constant and its growth as noise.
const mostGrowth = 1.2

// leastSamples is the minimum of samples in a quarter.
const leastSamples = 12

// Conclude computes the results from the samples.
func (r *SoakReport) Conclude() error {
	if len(r.Samples) < leastSamples {
		return fmt.Errorf("the run has %d samples, too few to say whether memory is flat; at least %d are needed: raise "+
			"--events or "+
			"shorten --every", len(r.Samples), leastSamples)
	}
	total := r.Samples[len(r.Samples)-1].Decided
	quarter := func(q uint64) float64 {
		var rss []float64
		for _, s := range r.Samples {
			if s.Decided*4 >= total*q && s.Decided*4 < total*(q+1) {
				rss = append(rss, float64(s.RSS)/(1<<20))
			}
			r.Peak = max(r.Peak, float64(s.RSS)/(1<<20))
		}
		if len(rss) == 0 {
			return 0
		}
		slices.Sort(rss)
		return rss[len(rss)/2]
	}
	r.Early, r.Late = quarter(1), quarter(3)
	if r.Early == 0 || r.Late == 0 {
		return errors.New("a quarter of the run has no sample: shorten --every; if that does not help, this system does " +
			"not report the memory of a process")
	}
	r.Growth = r.Late / r.Early
	first, last := r.Samples[0], r.Samples[len(r.Samples)-1]
	if n := last.Decided - first.Decided; n > 0 {
		r.DiskBytes = (float64(last.Streams+last.State+last.Log) - float64(first.Streams+first.State+first.Log)) / float64(n)
	}
	return nil
}

// Disk use in bytes, as docs/operations.md states it. bytesRemain is what each observation of 1 KB uses
// permanently. bytesKept is what it uses in addition until it is trimmed from the ledger and its payload in
// the log has expired. bytesFixed is what a pipeline without observations uses.
const (
	bytesKept, bytesRemain, bytesFixed = 5500, 4100, 100e6
)

// overDocumented returns the ratio of the disk use at the end to the documented disk use.
func (r *SoakReport) overDocumented() float64 {
	last := r.Samples[len(r.Samples)-1]
	kept := float64(r.Events) * float64(r.Retention+1) / float64(r.Days)
	return float64(last.Streams+last.State+last.Log) / (kept*bytesKept + float64(r.Events)*bytesRemain + bytesFixed)
}

// Lines returns the figures and their budgets.
func (r *SoakReport) Lines() []Line {
	out := r.lines()
	if r.Days > 0 && r.Size == eventSize && len(r.Samples) > 0 {
		v := r.overDocumented()
		out = append(out, Line{What: fmt.Sprintf("  ratio of disk use to documented disk use, after %d days, retention "+
			"%d days", r.Days,
			r.Retention), Value: v, Unit: "x", Budget: "<= 1.2 x", Pass: v <= 1.2})
	}
	return out
}

func (r *SoakReport) lines() []Line {
	return []Line{
		{What: fmt.Sprintf("soak: %d observations of %d bytes, %d projects", r.Events, r.Size, r.Projects), Value: r.Rate,
			Unit: "/s"},
		{What: "  memory, second quarter, median", Value: r.Early, Unit: "MiB"},
		{What: "  memory, last quarter, median", Value: r.Late, Unit: "MiB"},
		{What: "  ratio of last to second quarter", Value: r.Growth, Unit: "x", Budget: fmt.Sprintf("<= %g x", mostGrowth),
			Pass: r.Growth <= mostGrowth},
		{What: "  memory, highest sample", Value: r.Peak, Unit: "MiB"},
		{What: "  disk use per observation", Value: r.DiskBytes, Unit: "bytes"},
		{What: "  lost", Value: float64(r.Lost), Budget: "0", Pass: r.Lost == 0},
	}
}

// CSV writes the samples, one per line.
func (r *SoakReport) CSV(w io.Writer) error {
	var b strings.Builder
	b.WriteString("seconds,decided,chained,lag,waiting,rss_bytes,streams_bytes,state_bytes,log_bytes\n")
	for _, s := range r.Samples {
		fmt.Fprintf(&b, "%.1f,%d,%d,%d,%d,%d,%d,%d,%d\n", s.Seconds, s.Decided, s.Chained, s.Lag, s.Waiting, s.RSS,
			s.Streams, s.State, s.Log)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// ReadCSV parses the samples that CSV wrote.
func ReadCSV(b []byte) (out []Sample, err error) {
	for i, line := range strings.Split(strings.TrimSpace(string(b)), "\n") {
		if i == 0 {
			continue
		}
		f := strings.Split(line, ",")
		if len(f) != 9 {
			return nil, fmt.Errorf("line %d has %d fields, but must have 9", i+1, len(f))
		}
		var s Sample
		s.Seconds, err = strconv.ParseFloat(f[0], 64)
		for j, to := range []*uint64{&s.Decided, &s.Chained, &s.Lag, &s.Waiting, &s.RSS, &s.Streams, &s.State, &s.Log} {
			n, perr := strconv.ParseUint(f[j+1], 10, 64)
			*to, err = n, errors.Join(err, perr)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		out = append(out, s)
	}
	return out, nil
}

// DiskUse returns the size of the files in a folder, in bytes. A file with several hard links counts once,
// because a snapshot of a stage's state links most of its files. DiskUse ignores files that disappear while it
// runs.
func DiskUse(dir string) (n uint64) {
	seen := make(map[int64][]fs.FileInfo) // files with several links, by size
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil
		}
		fi, err := d.Info()
		if err != nil {
			return nil
		}
		of := seen[fi.Size()]
		if !slices.ContainsFunc(of, func(o fs.FileInfo) bool { return os.SameFile(o, fi) }) {
			seen[fi.Size()] = append(of, fi)
			n += uint64(fi.Size())
		}
		return nil
	})
	return n
}

// Sampling calls sample at the interval every until the load has ended and the auditor has chained all
// entries. loaded receives the load's error, or nil, when the load ends. Sampling also ends if the pipeline
// makes no progress for the time stuck.
func (r *SoakReport) Sampling(ctx context.Context, every time.Duration, loaded <-chan error,
	sample func(context.Context) (Sample, error)) error {
	began := time.Now()
	tick := time.NewTicker(every)
	defer tick.Stop()
	ended, stuckAt, last := false, time.Now(), uint64(0)
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-loaded:
			if err != nil {
				return fmt.Errorf("publishing the load: %w", err)
			}
			ended, loaded = true, nil
		case <-tick.C:
			s, err := sample(ctx)
			if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil && time.Since(stuckAt) < stuck {
				continue // the server is busy
			}
			if err != nil {
				return fmt.Errorf("after %s: %w", time.Since(began).Round(time.Second), err)
			}
			s.Seconds = time.Since(began).Seconds()
			r.Samples = append(r.Samples, s)
			if s.Decided+s.Chained != last {
				last, stuckAt = s.Decided+s.Chained, time.Now()
			}
			done := ended && s.Decided >= uint64(r.Events) && s.Lag == 0 && (r.Days == 0 || s.Waiting == 0)
			if done || time.Since(stuckAt) > stuck {
				r.Seconds = s.Seconds
				r.Rate, r.Lost = float64(s.Decided)/s.Seconds, int64(r.Events)-int64(s.Decided)
				if r.Days > 0 {
					r.Lost = max(r.Lost, 0) // negative if trims added ledger entries
				}
				if !done && r.Lost == 0 {
					return fmt.Errorf("the auditor stopped %d entries before the ledger's end", s.Lag)
				}
				return nil
			}
		}
	}
}

// IdleReport is the resident memory of an idle pipeline.
type IdleReport struct {
	RSS  float64 `json:"rss_mb"`
	Peak float64 `json:"peak_mb"` // maximum since the start
}

// Lines returns the figures and their budgets.
func (r *IdleReport) Lines() []Line {
	return []Line{
		{What: "memory, idle", Value: r.RSS, Unit: "MiB", Budget: "<= 120 MiB", Pass: r.RSS <= 120},
		{What: "  highest since the start", Value: r.Peak, Unit: "MiB"},
	}
}
