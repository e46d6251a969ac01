// The symbols of LaTeX's mathematics: the character of each name, its kind, and the alphabets of letters.

/** Each kind's names and characters, in pairs. The kinds are TeX's: they decide the spaces between symbols. */
const NAMES = {
  letter: `alpha α beta β gamma γ delta δ epsilon ϵ varepsilon ε zeta ζ eta η theta θ vartheta ϑ iota ι kappa κ varkappa ϰ lambda λ
    mu μ nu ν xi ξ omicron ο pi π varpi ϖ rho ρ varrho ϱ sigma σ varsigma ς tau τ upsilon υ phi ϕ varphi φ chi χ psi ψ omega ω
    partial ∂ imath ı jmath ȷ`,
  upright: `Gamma Γ Delta Δ Theta Θ Lambda Λ Xi Ξ Pi Π Sigma Σ Upsilon Υ Phi Φ Psi Ψ Omega Ω nabla ∇ infty ∞ hbar ℏ hslash ℏ ell ℓ Re ℜ
    Im ℑ aleph ℵ beth ℶ gimel ℷ wp ℘ emptyset ∅ varnothing ∅ forall ∀ exists ∃ nexists ∄ neg ¬ lnot ¬ top ⊤ bot ⊥ angle ∠
    measuredangle ∡ triangle △ square □ Box □ blacksquare ■ Diamond ◇ diamondsuit ♢ heartsuit ♡ clubsuit ♣ spadesuit ♠ degree ° textdegree ° sphericalangle ∢ AA Å
    prime ′ dag † ddag ‡ checkmark ✓ complement ∁ mho ℧ eth ð S § P ¶ copyright © pounds £ euro € flat ♭ natural ♮ sharp ♯ bigstar ★
    ldots … dots … dotsc … dotso … cdots ⋯ dotsb ⋯ dotsm ⋯ dotsi ⋯ vdots ⋮ ddots ⋱ iddots ⋰ backslash \\ % % $ $ # # _ _ & &`,
  binary: `pm ± mp ∓ times × div ÷ cdot ⋅ ast ∗ star ⋆ circ ∘ bullet ∙ oplus ⊕ ominus ⊖ otimes ⊗ oslash ⊘ odot ⊙ cap ∩ cup ∪ sqcap ⊓
    sqcup ⊔ uplus ⊎ vee ∨ lor ∨ wedge ∧ land ∧ setminus ∖ smallsetminus ∖ wr ≀ amalg ⨿ dagger † ddagger ‡ ltimes ⋉ rtimes ⋊
    bigtriangleup △ bigtriangledown ▽ triangleleft ◁ triangleright ▷ diamond ⋄ veebar ⊻ barwedge ⊼ boxplus ⊞ boxminus ⊟ boxtimes ⊠
    bigcirc ◯ intercal ⊺ dotplus ∔ curlyvee ⋎ curlywedge ⋏`,
  relation: `le ≤ leq ≤ leqslant ⩽ leqq ≦ ge ≥ geq ≥ geqslant ⩾ geqq ≧ ne ≠ neq ≠ lt < gt > ll ≪ lll ⋘ gg ≫ ggg ⋙ equiv ≡ sim ∼ simeq ≃
    approx ≈ approxeq ≊ cong ≅ asymp ≍ doteq ≐ doteqdot ≑ triangleq ≜ coloneqq ≔ coloneq ≔ eqqcolon ≕ propto ∝ varpropto ∝ in ∈
    notin ∉ ni ∋ owns ∋ subset ⊂ supset ⊃ subseteq ⊆ supseteq ⊇ subseteqq ⫅ supseteqq ⫆ subsetneq ⊊ supsetneq ⊋ nsubseteq ⊈
    nsupseteq ⊉ sqsubset ⊏ sqsupset ⊐ sqsubseteq ⊑ sqsupseteq ⊒ mid ∣ nmid ∤ parallel ∥ nparallel ∦ perp ⟂ vdash ⊢ dashv ⊣ models ⊨
    vDash ⊨ Vdash ⊩ nvdash ⊬ nvDash ⊭ prec ≺ succ ≻ preceq ⪯ succeq ⪰ preccurlyeq ≼ succcurlyeq ≽ lesssim ≲ gtrsim ≳ lessgtr ≶
    nless ≮ ngtr ≯ nleq ≰ ngeq ≱ ncong ≇ nsim ≁ bowtie ⋈ smile ⌣ frown ⌢ colon : therefore ∴ because ∵ trianglelefteq ⊴
    trianglerighteq ⊵ vartriangleleft ⊲ vartriangleright ⊳ between ≬ pitchfork ⋔ backsim ∽ lneq ⪇ gneq ⪈ lneqq ≨ gneqq ≩ precsim ≾ succsim ≿ nleqslant ≰ ngeqslant ≱
    to → rightarrow → gets ← leftarrow ← leftrightarrow ↔ Rightarrow ⇒ Leftarrow ⇐ Leftrightarrow ⇔ implies ⟹ impliedby ⟸ iff ⟺
    longrightarrow ⟶ longleftarrow ⟵ longleftrightarrow ⟷ Longrightarrow ⟹ Longleftarrow ⟸ Longleftrightarrow ⟺ mapsto ↦
    longmapsto ⟼ hookrightarrow ↪ hookleftarrow ↩ rightharpoonup ⇀ rightharpoondown ⇁ leftharpoonup ↼ leftharpoondown ↽
    rightleftharpoons ⇌ leftrightharpoons ⇋ rightleftarrows ⇄ leftrightarrows ⇆ rightrightarrows ⇉ uparrow ↑ downarrow ↓
    updownarrow ↕ Uparrow ⇑ Downarrow ⇓ Updownarrow ⇕ nearrow ↗ searrow ↘ swarrow ↙ nwarrow ↖ rightsquigarrow ⇝ leadsto ⇝
    nrightarrow ↛ nleftarrow ↚ nRightarrow ⇏ nLeftarrow ⇍ twoheadrightarrow ↠ rightarrowtail ↣ curvearrowright ↷ curvearrowleft ↶
    circlearrowright ↻ circlearrowleft ↺ upharpoonright ↾ restriction ↾ multimap ⊸ dashrightarrow ⇢ dashleftarrow ⇠`,
  open: "{ { lbrace { lbrack [ lparen ( langle ⟨ lfloor ⌊ lceil ⌈ lvert | lVert ‖ llbracket ⟦ lgroup ⟮ ulcorner ⌜ llcorner ⌞",
  close:
    "} } rbrace } rbrack ] rparen ) rangle ⟩ rfloor ⌋ rceil ⌉ rvert | rVert ‖ rrbracket ⟧ rgroup ⟯ urcorner ⌝ lrcorner ⌟",
  bar: "vert | Vert ‖ | ‖",
  sum: `sum ∑ prod ∏ coprod ∐ bigcup ⋃ bigcap ⋂ bigsqcup ⨆ bigvee ⋁ bigwedge ⋀ bigoplus ⨁ bigotimes ⨂ bigodot ⨀ biguplus ⨄`,
  integral: "int ∫ iint ∬ iiint ∭ oint ∮ oiint ∯ oiiint ∰ intop ∫ smallint ∫",
};

/** Literal characters of each kind; letters and digits are known by what they are. */
const LITERALS = {
  binary: "+ + - − − − * ∗ · ⋅",
  relation: "= = < < > > : :",
  open: "( ( [ [",
  close: ") ) ] ]",
  bar: "| |",
  punctuation: ", , ; ;",
  upright: '! ! ? ? / / . . % % @ @ ` ‘ " ″',
};

const words = (text) => text.trim().split(/\s+/);
const pairs = (text) => Array.from(text.matchAll(/(\S+)\s+(\S+)/g), ([, name, character]) => [name, character]);

function table(kinds) {
  return new Map(
    Object.entries(kinds).flatMap(([kind, list]) => pairs(list).map(([name, text]) => [name, { kind, text }])),
  );
}

/** By the name of a command. */
export const SYMBOLS = table(NAMES);

/** By the character itself, which models also write as it is. */
export const CHARACTERS = new Map([...SYMBOLS.values()].map((symbol) => [symbol.text, symbol]));
for (const [character, symbol] of table(LITERALS)) CHARACTERS.set(character, symbol);

export const FUNCTIONS = new Set(
  words(`sin cos tan cot sec csc sinh cosh tanh coth sech csch arcsin arccos arctan arccot arg deg dim exp hom ker lg ln log sgn tr rank
    erf`),
);

/** Functions whose index stands below them in a display. */
export const LIMITS = new Map(
  words("lim limsup liminf max min sup inf det gcd lcm Pr argmax argmin").map((name) => [
    name,
    { limsup: "lim sup", liminf: "lim inf", argmax: "arg max", argmin: "arg min" }[name] ?? name,
  ]),
);

/** Marks over or under their argument: whether they are as wide as it, and where they stand. */
export const ACCENTS = new Map(
  pairs(`hat ^ widehat ^ tilde ~ widetilde ~ bar ¯ vec → overrightarrow → overleftarrow ← overleftrightarrow ↔ dot ˙ ddot ¨
    dddot ⃛ check ˇ widecheck ˇ breve ˘ acute ´ grave \` mathring ˚ overbrace ⏞ overparen ⏜ overbracket ⎴
    underbrace ⏟ underparen ⏝ underbracket ⎵ underrightarrow → underleftarrow ←`).map(([name, text]) => [
    name,
    { text, wide: /^(?:wide|over|under)/.test(name), under: name.startsWith("under") },
  ]),
);

export const ARROWS = new Map(
  pairs(
    "xrightarrow → xleftarrow ← xleftrightarrow ↔ xRightarrow ⇒ xLeftarrow ⇐ xLeftrightarrow ⇔ xmapsto ↦ xlongequal =",
  ),
);

/** Widths of spaces in em; negative ones are none. */
export const SPACES = new Map(
  Object.entries({
    ",": 0.1667,
    thinspace: 0.1667,
    ":": 0.2222,
    ">": 0.2222,
    medspace: 0.2222,
    ";": 0.2778,
    thickspace: 0.2778,
    " ": 0.3333,
    "\n": 0.3333,
    space: 0.3333,
    nobreakspace: 0.3333,
    enspace: 0.5,
    enskip: 0.5,
    quad: 1,
    qquad: 2,
    "!": 0,
    negthinspace: 0,
    negmedspace: 0,
    negthickspace: 0,
  }),
);

/** The alphabet of each command. */
export const ALPHABETS = new Map(
  pairs(`mathrm upright rm upright mathup upright mathbf bold bf bold bold bold mathit italic it italic mathnormal italic
    boldsymbol bold-italic bm bold-italic pmb bold-italic mathbb double-struck Bbb double-struck mathcal script cal script
    mathscr script mathfrak fraktur frak fraktur mathsf sans sf sans mathtt mono tt mono`),
);

/** Commands of an alphabet that hold up to the end of their group. */
export const SWITCHES = new Set(words("rm bf it cal sf tt"));

/** Where each alphabet has A, a, 0, Α and α in Unicode. */
const FIRST = {
  bold: [0x1d400, 0x1d41a, 0x1d7ce, 0x1d6a8, 0x1d6c2],
  "bold-italic": [0x1d468, 0x1d482, 0x1d7ce, 0x1d71c, 0x1d736],
  "double-struck": [0x1d538, 0x1d552, 0x1d7d8],
  script: [0x1d49c, 0x1d4b6],
  fraktur: [0x1d504, 0x1d51e],
  sans: [0x1d5a0, 0x1d5ba, 0x1d7e2],
  mono: [0x1d670, 0x1d68a, 0x1d7f6],
};
const RANGES = [/[A-Z]/, /[a-z]/, /[0-9]/, /[Α-Ω]/, /[α-ω]/].map((range, i) => [range, "Aa0Αα".codePointAt(i)]);

/** Letters that Unicode had before it had the alphabets. */
const EARLIER = {
  "double-struck": { C: "ℂ", H: "ℍ", N: "ℕ", P: "ℙ", Q: "ℚ", R: "ℝ", Z: "ℤ" },
  script: { B: "ℬ", E: "ℰ", F: "ℱ", H: "ℋ", I: "ℐ", L: "ℒ", M: "ℳ", R: "ℛ", e: "ℯ", g: "ℊ", o: "ℴ" },
  fraktur: { C: "ℭ", H: "ℌ", I: "ℑ", R: "ℜ", Z: "ℨ" },
};

/** A letter or digit in an alphabet, or itself if the alphabet lacks it. */
export function styled(character, alphabet) {
  const earlier = EARLIER[alphabet]?.[character];
  if (earlier) return earlier;
  const range = RANGES.findIndex(([pattern]) => pattern.test(character));
  const first = FIRST[alphabet]?.[range];
  return first ? String.fromCodePoint(first + character.codePointAt(0) - RANGES[range][1]) : character;
}
