
declare
    v_warehouse text;
    v_district text;
begin
    update warehouse set w_ytd = w_ytd + p_amount where w_id = p_w_id
    returning w_name, concat_ws(', ', w_street_1, w_street_2, w_city, w_state, w_zip)
    into v_warehouse, r_warehouse;

    update district set d_ytd = d_ytd + p_amount where d_w_id = p_w_id and d_id = p_d_id
    returning d_name, concat_ws(', ', d_street_1, d_street_2, d_city, d_state, d_zip)
    into v_district, r_district;

    r_c_id := p_c_id;
    if p_c_last is not null then
        -- the one in the middle; of an even number the lower one (clause 2.5.2.2: n / 2 rounded up)
        select (array_agg(c_id order by c_first))[(count(*) + 1) / 2] into r_c_id
        from customer where c_w_id = p_c_w_id and c_d_id = p_c_d_id and c_last = p_c_last;
    end if;

    update customer
    set c_balance = c_balance - p_amount, c_ytd_payment = c_ytd_payment + p_amount/* payment count */,
        c_data = case
            when c_credit = 'BC' then left(
                concat_ws(' ', c_id, c_d_id, c_w_id, p_d_id, p_w_id, p_amount) || '|' || c_data, 500)
            else c_data
        end
    where c_w_id = p_c_w_id and c_d_id = p_c_d_id and c_id = r_c_id
    returning concat_ws(', ', c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip,
                        c_phone, c_since),
        c_credit, c_credit_lim, c_discount, c_balance, case when c_credit = 'BC' then left(c_data, 200) end
    into r_customer, r_credit, r_credit_limit, r_discount, r_balance, r_data;

    insert into history (h_c_d_id, h_c_w_id, h_c_id, h_d_id, h_w_id, h_date, h_amount, h_data)
    values (p_c_d_id, p_c_w_id, r_c_id, p_d_id, p_w_id, now(), p_amount, v_warehouse || '    ' || v_district);
end
