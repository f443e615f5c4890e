"""How much faster does the step become with a faster network, and with faster GEMMs?"""

from __future__ import annotations

import trainyard as ty


def main() -> None:
    result = ty.run("scenarios/llama3/llama3_8b_8xh100.json")
    print(f"today: {result.step_time_s:.4f} s")
    for what_if in (ty.WhatIf(nvlink=2.0), ty.WhatIf(gemm=0.5), ty.WhatIf(free=["tensor"])):
        saving = 1.0 - result.what_if(what_if) / result.step_time_s
        print(f"{what_if}: {saving:.1%} less")


if __name__ == "__main__":
    main()
