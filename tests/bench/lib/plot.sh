# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# Sourced by the benchmarks that draw pictures.

# plot_need BENCHMARK: end unless gnuplot is there
plot_need()
{
	command -v gnuplot >/dev/null ||
		{ echo "$1: gnuplot is missing: apt-get install gnuplot-nox" >&2; exit 1; }
}

# plot_svg FILE TITLE LABEL CELLS NAME...: draw the series of these names, by cell in the order of
# the file CELLS.  Rows of a series, in $WORK/plot.NAME, are: cell, figure, lowest, highest.
plot_svg()
{
	local file=$1 title=$2 label=$3 cells=$4 name i=0 n series=() names=()
	n=$(wc -l <"$cells")
	for name in "${@:5}"; do
		[ ! -s "$WORK/plot.$name" ] || names+=("$name")
	done
	for name in "${names[@]}"; do
		awk 'NR == FNR { at[$1] = FNR; next } { print at[$1], $2, $3, $4 }' "$cells" \
			"$WORK/plot.$name" >"$WORK/series.$name"
		series+=("'$WORK/series.$name' \
			using (\$1 + $((i++)) * 0.8 / ${#names[@]} - 0.4):2:3:4 \
			with yerrorbars pointsize 0.6 title '$name' noenhanced")
	done
	gnuplot <<-PLOT
		set terminal svg size $((300 + 40 * n)),700 background '#ffffff'
		set output '$WORK/plot.svg'
		set title '$title' noenhanced
		set ylabel '$label'
		set logscale y
		set xrange [0.5:$n.5]
		set xtics rotate by -60 noenhanced ($(
			awk '{ printf "%s\"%s\" %d", (NR > 1 ? ", " : ""), $1, NR }' "$cells"))
		set key outside right
		set grid
		plot $(printf '%s, ' "${series[@]}" | sed 's/, $//')
	PLOT
	cp "$WORK/plot.svg" "$file"
}
