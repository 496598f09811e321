package sqltext

import "testing"

func TestQualify(t *testing.T) {
	for sql, want := range map[string]string{
		"a = b":                        "a operator(pg_catalog.=) b",
		"a = b - c":                    "a operator(pg_catalog.=) (b operator(pg_catalog.-) c)",
		"a * b + c":                    "a operator(pg_catalog.*) b operator(pg_catalog.+) c",
		"a + b * c - d":                "a operator(pg_catalog.+) (b operator(pg_catalog.*) c) operator(pg_catalog.-) d",
		"a = -1 and b = -1::int":       "a operator(pg_catalog.=) -1 and b operator(pg_catalog.=) (operator(pg_catalog.-) 1::int)",
		"a in ('b', 'c')":              "a operator(pg_catalog.=) any (array['b', 'c'])",
		"a not in ('b')":               "a operator(pg_catalog.<>) all (array['b'])",
		"a in (select b)":              "a operator(pg_catalog.=) any (select b)",
		"nullif(a + 1, '')":            "case when (a operator(pg_catalog.+) 1) operator(pg_catalog.<>) '' then (a operator(pg_catalog.+) 1) end",
		"case a when b then 1 end":     "case when a operator(pg_catalog.=) b then 1 end",
		"update x set a = b, c = d":    "update x set a = b, c = d",
		"set a = b = c, d = e and f=1": "set a = b operator(pg_catalog.=) c, d = e and f operator(pg_catalog.=)1",
		"count(*) filter (where a)":    "pg_catalog.count(*) filter (where a)",
		"a::text[] || b::int":          "a::pg_catalog.text[] operator(pg_catalog.||) b::int",
		`a text collate "C"`:           `a pg_catalog.text collate pg_catalog."C"`,
		"unnest(a, b) as n (c, d)":     "unnest(a, b) as n (c, d)",
		"unnest(a)":                    "pg_catalog.unnest(a)",
		"'a = b' /* c = d */ -- e = f": "'a = b' /* c = d */ -- e = f",
		"create table c.t (a int) with (fillfactor = 1)": "create table c.t (a int) with (fillfactor = 1)",
	} {
		if got := Qualify(sql); got != want {
			t.Errorf("%s\nis  %s\nnot %s", sql, got, want)
		}
		if again := Qualify(want); again != want {
			t.Errorf("%s\nbecomes %s", want, again)
		}
	}
	for _, sql := range []string{
		"a between b and c", "a like b", "a is distinct from b", "a is not distinct from b", "a join b using (c)", "nullif(a, b)",
		"a not in (select b)", "cast(a as b)", "a natural join b", "inet '::1'", "a ilike b", "(a", "a)",
	} {
		func() {
			defer func() { _ = recover() }()
			t.Errorf("%s becomes %s; want it refused", sql, Qualify(sql))
		}()
	}
}
