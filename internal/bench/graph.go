package bench

import (
	"fmt"
	"io"
	"math"
	"strings"
)

// Size of the graph, in pixels.
const (
	graphWidth  = 760
	graphHeight = 240 // height of each of the two charts
	graphLeft   = 70
	graphRight  = 20
	graphTop    = 34
	graphBottom = 36
)

// curve is one line of a chart.
type curve struct {
	name, color string
	y           func(Sample) float64
}

// Graph draws memory and disk use over the number of observations as SVG.
func Graph(w io.Writer, title string, samples []Sample) error {
	if len(samples) < 2 {
		return fmt.Errorf("the file has %d samples, which are too few for a graph", len(samples))
	}
	const mib = 1 << 20
	var b strings.Builder
	fmt.Fprintf(&b,
		`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n",
		graphWidth, 2*graphHeight)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="#ffffff"/><title>%s</title>`+"\n", escape(title))
	chart(&b, 0, title+": resident memory, MiB", samples,
		[]curve{{"server and stages", "#1f5fa8", func(s Sample) float64 { return float64(s.RSS) / mib }}})
	chart(&b, graphHeight, "on disk, MiB", samples, []curve{
		{"streams", "#1f5fa8", func(s Sample) float64 { return float64(s.Streams) / mib }},
		{"log", "#a8521f", func(s Sample) float64 { return float64(s.Log) / mib }},
		{"state", "#3f8f4f", func(s Sample) float64 { return float64(s.State) / mib }},
	})
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func chart(b *strings.Builder, top float64, title string, samples []Sample, curves []curve) {
	var mostX, mostY float64
	for _, s := range samples {
		mostX = max(mostX, float64(s.Decided))
		for _, c := range curves {
			mostY = max(mostY, c.y(s))
		}
	}
	mostX, mostY = max(mostX, 1), max(round(mostY), 1)
	left, right, up, down := float64(graphLeft), float64(graphWidth-graphRight), top+graphTop, top+graphHeight-graphBottom
	x := func(v float64) float64 { return left + v/mostX*(right-left) }
	y := func(v float64) float64 { return down - v/mostY*(down-up) }
	fmt.Fprintf(b, `<text x="%g" y="%g" font-weight="bold">%s</text>`+"\n", left, top+18, escape(title))
	for i := range 5 {
		v := mostY * float64(i) / 4
		fmt.Fprintf(b, `<line x1="%g" x2="%g" y1="%.1f" y2="%.1f" stroke="#dddddd"/>`+
			`<text x="%g" y="%.1f" text-anchor="end">%s</text>`+"\n", left, right, y(v), y(v), left-6, y(v)+4, short(v))
		v = mostX * float64(i) / 4
		fmt.Fprintf(b, `<text x="%.1f" y="%g" text-anchor="middle">%s</text>`+"\n", x(v), down+16, short(v))
	}
	fmt.Fprintf(b, `<text x="%g" y="%g" text-anchor="end" fill="#666666">observations</text>`+"\n", right, down+30)
	for i, c := range curves {
		var points []string
		for _, s := range samples {
			points = append(points, fmt.Sprintf("%.1f,%.1f", x(float64(s.Decided)), y(c.y(s))))
		}
		fmt.Fprintf(b, `<polyline fill="none" stroke="%s" stroke-width="1.5" points="%s"/>`+"\n", c.color,
			strings.Join(points, " "))
		if len(curves) > 1 {
			fmt.Fprintf(b, `<text x="%g" y="%g" fill="%s">%s</text>`+"\n", left+10+float64(i)*90, up+12, c.color, escape(c.name))
		}
	}
}

// round returns a readable number that is at least v, for an axis with four parts.
func round(v float64) float64 {
	if v <= 0 {
		return 0
	}
	step := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 4, 6, 8, 10} {
		if m*step >= v {
			return m * step
		}
	}
	return v
}

func short(v float64) string {
	switch {
	case v >= 1e6:
		return fmt.Sprintf("%.3gM", v/1e6)
	case v >= 1e4:
		return fmt.Sprintf("%.3gk", v/1e3)
	}
	return fmt.Sprintf("%.4g", v)
}

func escape(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(s)
}
