package flow_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/flow"
)

// nothing are values without any, which cost nothing to forget.
type nothing struct{ courier.Values }

func (nothing) Forget(first, last int)                                        {}
func (nothing) SetNull(first, last int)                                       {}
func (nothing) LoopEnded(marker int, outer []int, count, failed, rescued int) {}

func BenchmarkParse(b *testing.B) {
	many := func(steps ...courier.StepSpec) []courier.StepSpec {
		return slices.Repeat(steps, 100_000/len(steps))
	}
	for _, c := range []struct {
		name  string
		steps []courier.StepSpec
	}{
		{"plain", many(do("file.copy"))},
		{"configured", many(get("${context:0.path}/x"))},
		{"spec", many(spec...)},
		{"nested", nest(1000, forEach("context:0.list"))},
		{"deep", nest(50_000, forEach("context:0.list"))},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := flow.Parse(c.steps); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)*float64(len(c.steps))/b.Elapsed().Seconds(), "steps/s")
		})
	}
}

func BenchmarkForEach(b *testing.B) {
	for _, n := range []int{1_000, 100_000, 1_000_000} {
		list := make([]any, n)
		for i := range list {
			list[i] = m{"name": fmt.Sprint("f", i), "size": num(i)}
		}
		tree := parse(b, forEach("context:params.list"), get("${context:loop.current_item.name}"),
			when("context:loop.current_item.size", "greater_than", "1048576"), get("x"), otherwise, get("y"), end, end)
		v := nothing{courier.Values{"params.list": list}}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			steps := 0
			var at courier.Position
			for b.Loop() {
				w := walk(b, tree, courier.Position{}, v)
				for {
					step, err := w.Next()
					if err != nil {
						b.Fatal(err)
					}
					if step == tree.Len() {
						break
					}
					at = w.Position()
					steps++
					w.Advance()
				}
			}
			if at.Loops[0].Index != n-1 {
				b.Fatal(at)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(steps), "ns/step")
		})
	}
}

func BenchmarkRender(b *testing.B) {
	for _, c := range []struct {
		name   string
		config m
	}{
		{"static", m{"connection_id": "c1", "remote_path": "/incoming", "recursive": true}},
		{"whole", m{"connection_id": "c1", "remote_path": "context:0.file"}},
		{"text", m{"connection_id": "c1", "remote_path": "/archive/${context:params.day}/${context:0.plain}"}},
		{"list", m{"files": "context:0.files"}},
	} {
		tmpl, _ := flow.Compile(c.config)
		s := courier.Values{"0.plain": "invoice.csv"}
		for k, v := range scope {
			s[k] = v
		}
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			buf := make([]byte, 0, 1<<10)
			for b.Loop() {
				var err error
				if buf, err = tmpl.Render(buf[:0], s, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkCompare(b *testing.B) {
	tree := parse(b, when("context:params.a", "less_than", "context:params.b"), do("a.b"), end)
	for _, c := range []struct{ name, a, b string }{
		{"numbers", "1048576.25", "1048577"}, {"exponents", "1e1000000000", "1.5e1000000000"}, {"texts", "invoice-2024.csv", "INVOICE-2025.csv"},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			v := nothing{courier.Values{"params.a": c.a, "params.b": c.b}}
			w := walk(b, tree, courier.Position{}, v)
			for b.Loop() {
				*w = *walk(b, tree, courier.Position{}, v)
				if step, err := w.Next(); step != 1 || err != nil {
					b.Fatal(step, err)
				}
			}
		})
	}
}

func BenchmarkCheck(b *testing.B) {
	steps := slices.Repeat(spec, 1000)
	for i := range steps {
		if !slices.Contains([]string{"sftp.list", "sftp.download"}, steps[i].Type) && len(steps[i].Type) > 4 && steps[i].Type[:5] != "flow." {
			steps[i].Type = "file.delete"
		}
	}
	job := courier.Job{Name: "x", Steps: steps}
	tree := parse(b, steps...)
	r := registry()
	for b.Loop() {
		flow.Check(tree, &job, r)
	}
	b.ReportMetric(float64(b.N)*float64(len(steps))/b.Elapsed().Seconds(), "steps/s")
}
